// node shop.js BOOTSTRAP PREFIX TOPIC COUNT
// Sends COUNT transactions, prints {"id", "i", "fate"} for each, and answers checks until its standard input ends.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { TransactionProducer, announce, checkEndpoint } from './checkback.js'

const [bootstrap, prefix, topic, count] = process.argv.slice(2)
const group = 'node-shop'
const ended = once(process.stdin.resume(), 'end')

// In place of a database. It is as good as one only while this process lives: see docs/transaction-log.md.
const fates = new Map()
const check = async (id) => fates.get(id) ?? 'rollback'

const server = createServer(checkEndpoint({ group, check })).listen(0, '127.0.0.1')
await once(server, 'listening')
const withdraw = await announce({ bootstrap, prefix, group, url: `http://127.0.0.1:${server.address().port}/checkback/` })
const producer = new TransactionProducer({ bootstrap, prefix, group })
await producer.connect()

for (let i = 0; i < Number(count); i++) {
  const headers = [['trace-id', Buffer.from([0x00, 0xff])], ['step', '1'], ['step', '2'], ['größe', 'ü'], ['empty', '']]
  const message = { topic, key: `order-${i}`, value: JSON.stringify({ order: i }), headers }
  const fate = ['commit', 'rollback', 'crash'][i % 3]
  let half
  if (fate === 'crash') {
    half = await producer.begin(message) // and it "dies" after its local commit: no op says so, a check asks
    fates.set(half.id, 'commit')
  } else {
    half = await producer.sendInTransaction(message, async (id) => {
      fates.set(id, fate)
      return fate
    })
  }
  console.log(JSON.stringify({ id: half.id, i, fate }))
}

await ended
await withdraw()
await producer.close()
server.close()
server.closeAllConnections() // check services keep theirs for some seconds
