// Does what it reads, a line at a time: see driven.py.

const { createInterface } = require('node:readline')
const { Producer } = require('rocketmq-client-nodejs')
const { TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb')

const { ACCESS_KEY, ACCESS_SECRET, NAMESPACE, TLS } = process.env
const answers = {
  commit: TransactionResolution.COMMIT,
  rollback: TransactionResolution.ROLLBACK,
  unknown: TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED
}
let [address, topic] = process.argv.slice(2)
let answer = answers.commit
let transaction

const say = (line) => console.log(line.replaceAll('\n', ' '))

async function done(producer, words) {
  switch (words[0]) {
    case 'topic':
      topic = words[1]
      return 'OK'
    case 'answer':
      answer = answers[words[1]]
      return 'OK'
    case 'commit':
    case 'rollback':
      await transaction[words[0]]()
      return 'OK'
    case 'crash':
      process.exit(9)
  }
  const [kind, text, size] = words.slice(1)
  const body = Buffer.alloc(Number(size))
  body.write(text)
  const message = { topic, tag: 'paid', keys: ['k1'], properties: new Map([['customer', '7']]), body }
  if (kind === 'fifo') message.messageGroup = 'g1'
  if (kind === 'delay') message.delay = 2_000
  transaction = kind === 'half' ? producer.beginTransaction() : undefined
  const receipt = await producer.send(message, transaction)
  return `OK ${receipt.messageId}`
}

async function main() {
  const producer = new Producer({
    endpoints: address,
    namespace: NAMESPACE ?? '',
    sslEnabled: TLS === 'yes',
    sessionCredentials: ACCESS_KEY ? { accessKey: ACCESS_KEY, accessSecret: ACCESS_SECRET } : undefined,
    topics: [topic],
    checker: {
      async check(message) {
        const text = message.body.toString().split('\0')[0]
        say(`CHECK ${text} ${message.body.length} ${message.tag} ${message.keys} ${message.properties.get('customer')}`)
        return answer
      }
    }
  })
  await producer.startup()
  say('READY')
  for await (const line of createInterface({ input: process.stdin })) {
    say(await done(producer, line.split(' ')).catch((error) => `FAILED ${error.code} ${error}`))
  }
  await producer.shutdown()
}

main().catch((error) => {
  say(`FAILED ${error.code} ${error}`)
  process.exit(1)
})
