// A client of the wire protocol, version 1 (docs/protocol.md): a producer, and an endpoint that can be asked.
import { createHash, createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import { Kafka, logLevel } from 'kafkajs'

const ACTIONS = ['commit', 'rollback', 'unknown']
const TOPICS = ['half', 'op', 'check', 'parked', 'rejected', 'status', 'producers', 'progress']
const MIB = 1024 * 1024
const BODY_LIMIT = 8 * MIB // what is longer is answered 413: the check is then asked again without the message
const BATCH_MS = 2_000 // an answer to several checks goes out by then, with what is there
const SIGNED_WITHIN_MS = 900_000
const MOST_PLAIN_BYTES = 4_096 // of content that is signed without a hash of its own

/** Bytes of a text (UTF-8), bytes as they are, null as null: null and empty are different. */
const bytes = (it) => (it == null ? null : Buffer.from(it))

/**
 * The record of a half message, without its partition. Throws for what the job would reject: a rejected half is a lost
 * message, and nobody tells its producer.
 * @param {string} id
 * @param {string} group
 * @param {Message} message
 * @param {string} [prefix] topic prefix
 */
export function halfRecord(id, group, { topic, key = null, value = null, headers = [], partition }, prefix = 'cb.') {
  const refuse = (condition, what) => { if (condition) throw new Error(`Not a message: ${what}`) }
  refuse(!/^[a-zA-Z0-9._-]{1,249}$/.test(topic) || topic === '.' || topic === '..', `topic ${topic}`)
  refuse(topic.startsWith('__') || TOPICS.some((name) => topic === prefix + name), `${topic} is Checkback's or Kafka's own`)
  refuse(partition !== undefined && !/^\d{1,9}$/.test(String(partition)), `partition ${partition}`)
  for (const [name] of headers) {
    refuse(name.startsWith('cb-'), `header ${name}: names with cb- are Checkback's`)
    refuse(/[\0\ufffd]/.test(name) || !name.isWellFormed(), `header name ${JSON.stringify(name)}`)
  }
  const ours = [['cb-id', id], ['cb-group', group], ['cb-topic', topic]]
  if (partition !== undefined) ours.push(['cb-partition', String(partition)])
  const record = { key: bytes(key), value: bytes(value), headers: [...ours, ...headers].map(([n, v]) => [n, bytes(v)]) }
  const size = record.headers.reduce((sum, [n, v]) => sum + Buffer.byteLength(n) + (v?.length ?? 0), 0)
  refuse(record.value?.length > 16 * MIB || record.key?.length > MIB, 'its value or key is too large')
  refuse(size > MIB || record.headers.length > 1_000, 'its headers are too many or too large')
  return record
}

/**
 * The record of an op, which goes to the half's partition number.
 * @param {Half} half
 * @param {string} group
 * @param {'commit'|'rollback'|'unknown'} action
 */
export function opRecord({ id, partition, offset }, group, action) {
  const headers = [['cb-id', id], ['cb-group', group], ['cb-half', `${partition}:${offset}`], ['cb-action', action],
    ['cb-source', 'producer']]
  return { key: null, value: Buffer.alloc(0), headers: headers.map(([name, value]) => [name, bytes(value)]) }
}

const string = (it) => (it === null ? Buffer.from('-,') : Buffer.concat([Buffer.from(`${it.length}:`), it, Buffer.from(',')]))
const spelled = (headers) => headers.flatMap(([name, value]) => [string(Buffer.from(name)), string(value)])

/**
 * The value of the header cb-signature, which stands behind all others, for a group with keys in the access policy.
 * @param {{id: string, secret: string}} signing
 * @param {string} topic
 * @param {number} partition
 * @param {number} timeMs
 * @param {{key: Buffer|null, value: Buffer|null, headers: [string, Buffer|null][]}} record
 */
export function recordSignature({ id, secret }, topic, partition, timeMs, { key, value, headers }) {
  const ours = ([name]) => name.startsWith('cb-') && name !== 'cb-reason'
  const content = Buffer.concat([string(key), string(value), ...spelled(headers.filter((one) => !ours(one)))])
  const words = [id, String(timeMs)]
  const named = [topic, String(partition), ...words].map((word) => string(Buffer.from(word)))
  let signed = [string(null), content]
  if (content.length > MOST_PLAIN_BYTES) {
    words.push(createHash('sha256').update(content).digest('base64'))
    signed = [string(Buffer.from(words[2]))]
  }
  const message = Buffer.concat([...named, ...signed, ...spelled(headers.filter(ours))])
  words.push(createHmac('sha256', secret).update(message).digest().subarray(0, 16).toString('base64'))
  return words.join(' ')
}

/**
 * A list of headers as kafkajs takes it: an object, with a list where a name is repeated. That form cannot say everything
 * that Kafka and the protocol allow, and kafkajs fails over a null. What would arrive otherwise than given is refused.
 * @param {[string, Buffer|null][]} headers
 */
export function kafkajsHeaders(headers) {
  const object = Object.create(null)
  for (const [name, value] of headers) {
    if (value === null) throw new Error(`kafkajs cannot write a header that is null: ${name}`)
    ;(object[name] ??= []).push(value)
  }
  const order = Object.keys(object).flatMap((name) => object[name].map(() => name))
  if (order.some((name, i) => name !== headers[i][0])) {
    throw new Error('kafkajs cannot keep the order of these headers: a repeated name must stand together, numbers first')
  }
  return object
}

/** Writes records one after another, and says where each lies. */
class Writer {
  #kafka
  #producer = null
  #last = Promise.resolve()

  constructor(bootstrap, clientId) {
    this.#kafka = new Kafka({ clientId, brokers: bootstrap.split(','), logLevel: logLevel.ERROR })
  }

  /** Number of partitions that all of these topics have. */
  async partitions(topics) {
    const admin = this.#kafka.admin() // never makes a topic; fails when one is missing
    try {
      await admin.connect()
      return Math.min(...(await admin.fetchTopicMetadata({ topics })).topics.map((topic) => topic.partitions.length))
    } finally {
      await admin.disconnect()
    }
  }

  // One record at a time, and a new producer id after a failure. kafkajs gives the sequence number of a record that
  // failed to the next one. If Kafka has the failed record all the same, it takes that next one for a repetition of it:
  // it would drop it, and acknowledge it with the place of the other.
  write(topic, partition, { key, value, headers }) {
    const written = this.#last.then(async () => {
      const message = { partition, key, value, headers: kafkajsHeaders(headers) }
      try {
        this.#producer ??= await this.#connected()
        const [place] = await this.#producer.send({ topic, acks: -1, messages: [message] })
        // kafkajs sends nothing, and says nothing, when it does not know the partition.
        if (!/^\d+$/.test(place?.baseOffset)) throw new Error(`Kafka gave no offset in ${topic}, partition ${partition}`)
        return place.baseOffset
      } catch (error) {
        this.#producer?.disconnect().catch(() => {})
        this.#producer = null
        throw error
      }
    })
    this.#last = written.catch(() => {})
    return written
  }

  async #connected() {
    const producer = this.#kafka.producer({ idempotent: true, retry: { retries: 8 }, metadataMaxAge: 30_000,
      allowAutoTopicCreation: false })
    await producer.connect()
    return producer
  }

  async close() {
    await this.#last
    await this.#producer?.disconnect()
  }
}

/**
 * @typedef {{topic: string, key?: string|Buffer|null, value?: string|Buffer|null, partition?: number,
 *   headers?: [string, string|Buffer][]}} Message  `partition` is one of the real topic; without it the key decides
 * @typedef {{id: string, partition: number, offset: string}} Half  where Kafka has put a half message
 */

/** Sends messages that appear if, and only if, the local transaction commits. */
export class TransactionProducer {
  #writer
  #turn = Math.floor(Math.random() * 1_000)
  #partitions = { count: 0, before: Infinity, at: -Infinity }

  /**
   * @param {{bootstrap: string, group: string, prefix?: string, onLostOp?: (error: Error, half: Half) => void,
   *   signing?: {id: string, secret: string}}} options  `signing`: the group's key, where the access policy gives it one
   */
  constructor({ bootstrap, group, prefix = 'cb.', onLostOp, signing }) {
    if (!group || Buffer.byteLength(group) > 255) throw new Error('A group has 1 to 255 bytes')
    Object.assign(this, { group, prefix, signing })
    this.onLostOp = onLostOp ?? ((error, half) => console.error(`The check decides ${half.id}: ${error.message}`))
    this.#writer = new Writer(bootstrap, `checkback-${group}`)
  }

  /** Fails when one of Checkback's topics is missing. */
  async connect() {
    await this.#partition()
  }

  /**
   * Writes the half, runs the local transaction with its id, and writes what became of it. An error of the local
   * transaction is taken for *unknown*, since the commit may have happened, and is thrown on.
   * @param {Message} message
   * @param {(transactionId: string) => Promise<'commit'|'rollback'|'unknown'>} localTransaction
   */
  async sendInTransaction(message, localTransaction) {
    const half = await this.begin(message)
    let action = 'unknown'
    try {
      action = await localTransaction(half.id)
      return { ...half, action }
    } finally {
      this.end(half, ACTIONS.includes(action) ? action : 'unknown')
    }
  }

  /**
   * Writes the half alone. When it throws, no local transaction may run: to try again, call it again: it takes a new id.
   * @param {Message} message
   * @returns {Promise<Half>}
   */
  async begin(message) {
    const id = randomBytes(16).toString('hex')
    const record = halfRecord(id, this.group, message, this.prefix)
    const partition = await this.#partition()
    return { id, partition, offset: await this.#write(`${this.prefix}half`, partition, record) }
  }

  /**
   * Writes the op of a half, and does not wait for it: one that is lost costs a check, no message.
   * @param {Half} half
   * @param {'commit'|'rollback'|'unknown'} action
   */
  end(half, action) {
    this.#write(`${this.prefix}op`, half.partition, opRecord(half, this.group, action))
      .catch((error) => this.onLostOp(error, half))
  }

  /** Waits for the ops that are under way. */
  async close() {
    await this.#writer.close()
  }

  async #write(topic, partition, record) {
    if (!this.signing) return this.#writer.write(topic, partition, record)
    const signature = recordSignature(this.signing, topic, partition, Date.now(), record)
    const headers = [...record.headers, ['cb-signature', bytes(signature)]]
    return this.#writer.write(topic, partition, { ...record, headers })
  }

  // In turn. Topics may grow: new partitions are used when a second look finds them, since by then kafkajs, which looks
  // every 30 s, knows them, too.
  async #partition() {
    if (Date.now() - this.#partitions.at > 60_000) {
      const count = await this.#writer.partitions([`${this.prefix}half`, `${this.prefix}op`])
      const before = this.#partitions.count || count
      this.#partitions = { count, before, at: Date.now() }
    }
    return this.#turn++ % Math.min(this.#partitions.count, this.#partitions.before)
  }
}

/**
 * The signature of a request.
 * @param {string} key
 * @param {string} time the header checkback-time, as it came
 * @param {Buffer|string} body as it came
 */
export const signature = (key, time, body) => createHmac('sha256', key).update(`${time}.`).update(body).digest('hex')

/**
 * The signature of the answer to a request.
 * @param {string} key
 * @param {string} request the request's own: its header checkback-signature
 * @param {Buffer|string} body of the answer, as it is sent
 */
export const answerSignature = (key, request, body) =>
  createHmac('sha256', key).update(`answer.${request}.`).update(body).digest('hex')

/**
 * A handler for node:http that answers checks, at whatever path.
 * @param {object} options
 * @param {string} options.group
 * @param {string} [options.key] the group's key; without it anybody may ask, and answers are not signed
 * @param {(transactionId: string, check: object) => Promise<'commit'|'rollback'|'unknown'>} options.check says `rollback`
 *   only of what has not committed and never will
 * @param {() => number} [options.clock] ms since 1970
 */
export function checkEndpoint({ group, key, check, clock = Date.now }) {
  if (key === '') throw new Error('An empty key is none: anybody could sign with it')

  function signed(request, body) {
    const time = request.headers['checkback-time'] ?? ''
    const given = Buffer.from(request.headers['checkback-signature'] ?? '')
    const wanted = Buffer.from(signature(key, time, body))
    return given.length === wanted.length && timingSafeEqual(given, wanted) && /^\d{1,15}$/.test(time) &&
      Math.abs(clock() - Number(time)) <= SIGNED_WITHIN_MS
  }

  async function stateOf(said) {
    try {
      const state = await check(said.id, said)
      return ACTIONS.includes(state) ? { state } : { state: 'unknown', remark: `the application says ${state}` }
    } catch (error) {
      return { state: 'unknown', remark: String(error).slice(0, 512) }
    }
  }

  async function several(checks) {
    const answers = []
    const asked = checks.filter((said) => isCheck(said) && said.group === group) // others are left out: unknown
      .map(async (said) => { answers.push({ id: said.id, ...(await stateOf(said)) }) })
    let timer
    await Promise.race([Promise.all(asked), new Promise((resolve) => { timer = setTimeout(resolve, BATCH_MS) })])
    clearTimeout(timer)
    return { answers: [...answers] }
  }

  async function answer(request) {
    if (request.method !== 'POST') return [405, {}]
    const parts = []
    let size = 0
    for await (const part of request) { // also what is too long is read to its end, so that the answer is heard
      size += part.length
      if (size <= BODY_LIMIT) parts.push(part)
    }
    if (size > BODY_LIMIT) return [413, {}]
    const body = Buffer.concat(parts)
    if (key !== undefined && !signed(request, body)) return [401, {}]
    let said
    try { said = JSON.parse(body) } catch { return [400, {}] }
    if (isVersion1(said) && Array.isArray(said.checks)) return [200, await several(said.checks)]
    if (!isCheck(said)) return [400, {}]
    return said.group === group ? [200, await stateOf(said)] : [404, {}]
  }

  return async (request, response) => {
    try {
      const [status, said] = await answer(request)
      const body = JSON.stringify(said)
      const headers = { 'content-type': 'application/json' }
      if (key !== undefined && status === 200)
        headers['checkback-signature'] = answerSignature(key, request.headers['checkback-signature'], body)
      response.writeHead(status, headers).end(body)
    } catch {
      response.destroy() // the connection broke while the request was read
    }
  }
}

const isVersion1 = (said) => said !== null && typeof said === 'object' && (said.version ?? 1) === 1
const isCheck = (said) => isVersion1(said) && typeof said.id === 'string' && typeof said.group === 'string'

/**
 * Announces an endpoint, from now until the function that it gives is called.
 * @param {object} options
 * @param {string} options.bootstrap
 * @param {string} options.group
 * @param {string} options.url one that the check services reach
 * @param {string} [options.prefix] topic prefix
 * @param {number} [options.batch] so many checks may come in one request
 * @param {string[]} [options.topics] asked only about these real topics
 * @returns {Promise<() => Promise<void>>} takes the announcement back
 */
export async function announce({ bootstrap, group, url, prefix = 'cb.', batch, topics, everyMs = 10_000 }) {
  if (['0.0.0.0', '[::]'].includes(new URL(url).hostname)) throw new Error(`Nobody can ask ${url}`)
  const instance = randomUUID()
  const writer = new Writer(bootstrap, `checkback-${group}`)
  const say = (value) =>
    writer.write(`${prefix}producers`, 0, { key: bytes(`${group}/${instance}`), value: bytes(value), headers: [] })
  const beat = () => say(JSON.stringify({ group, instance, url, time_ms: Date.now(), batch, topics }))
  await beat()
  const timer = setInterval(() => beat().catch((error) => console.error(`Not announced: ${error.message}`)), everyMs)
  return async () => {
    clearInterval(timer)
    await say(null) // behind a heartbeat that is under way: records are written one after another
    await writer.close()
  }
}
