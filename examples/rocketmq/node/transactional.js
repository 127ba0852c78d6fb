// A transactional message through a gateway, with RocketMQ's own client.
//
//   node transactional.js ADDRESS TOPIC commit|rollback|crash|listen

const { Producer } = require('rocketmq-client-nodejs')
const { TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb')

const [address, topic, mode] = process.argv.slice(2)
const { ACCESS_KEY, ACCESS_SECRET, TLS } = process.env

// Looks at what the local transaction left in the database; TRANSACTION_RESOLUTION_UNSPECIFIED is asked again.
const checker = {
  async check(message) {
    console.log(`asked about ${message.messageId}: ${message.body}`)
    return TransactionResolution.COMMIT
  }
}

async function main() {
  const producer = new Producer({
    endpoints: address,
    namespace: '',
    sslEnabled: TLS === 'yes',
    sessionCredentials: ACCESS_KEY ? { accessKey: ACCESS_KEY, accessSecret: ACCESS_SECRET } : undefined,
    topics: [topic],
    checker
  })
  await producer.startup()

  if (mode === 'listen') { // answer checks, also about transactions of other processes
    console.log('listening')
    return
  }

  const transaction = producer.beginTransaction()
  const receipt = await producer.send({
    topic,
    tag: 'paid',
    keys: ['order-1'],
    properties: new Map([['customer', '7']]),
    body: Buffer.from('order 1 from Node')
  }, transaction)
  console.log('half message', receipt.messageId)
  // here belongs the local transaction: what the message tells of
  if (mode === 'crash') process.exit(1)
  await transaction[mode]()
  console.log(mode)
  await producer.shutdown()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
