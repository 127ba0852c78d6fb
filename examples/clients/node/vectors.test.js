// node --test: what docs/vectors says of an endpoint and of a producer. No Kafka is needed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { answerSignature, checkEndpoint, halfRecord, kafkajsHeaders, opRecord, recordSignature, signature } from './checkback.js'

const folder = process.env.CHECKBACK_VECTORS ?? join(import.meta.dirname, '../../../docs/vectors')
const vectors = (name) => JSON.parse(readFileSync(join(folder, `${name}.json`))).cases

/** Asks a handler over HTTP; gives the status and the body. */
async function ask(handler, body, headers = {}, method = 'POST') {
  const server = createServer(handler).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const sent = request({ host: '127.0.0.1', port: server.address().port, path: '/checkback/', method, agent: false,
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers } }).end(body)
    const [response] = await once(sent, 'response')
    const signed = response.headers['checkback-signature']
    return { status: response.statusCode, signed, body: Buffer.concat(await response.toArray()).toString() }
  } finally {
    server.close()
  }
}

for (const { name, group, key, now_ms, knows, headers, body, must } of vectors('requests')) {
  test(`requests: ${name}`, async () => {
    const options = { group, key, check: async (id) => knows[id] ?? 'rollback' }
    if (now_ms !== undefined) options.clock = () => now_ms
    const said = await ask(checkEndpoint(options), body, headers)
    if (must.status !== undefined) assert.equal(said.status, must.status)
    if (must.status_not !== undefined) assert.notEqual(said.status, must.status_not)
    if (key !== undefined && said.status === 200) {
      const [, asked] = Object.entries(headers).find(([name]) => name.toLowerCase() === 'checkback-signature')
      assert.equal(said.signed, answerSignature(key, asked, said.body))
    }
    const json = said.status === 200 ? JSON.parse(said.body) : {}
    for (const [field, value] of Object.entries(must.answer ?? {})) assert.equal(json[field], value)
    if (must.answers) assert.deepEqual(Object.fromEntries(json.answers.map(({ id, state }) => [id, state])), must.answers)
  })
}

for (const { key, time_ms, body, signature: wanted } of vectors('signatures')) {
  test(`signatures: ${key}, ${time_ms}, ${body.length} characters`, async () => {
    assert.equal(signature(key, String(time_ms), body), wanted)
    const endpoint = checkEndpoint({ group: 'orders', key, clock: () => time_ms, check: async () => 'commit' })
    const asked = (given) => ask(endpoint, body, { 'checkback-time': String(time_ms), 'checkback-signature': given })
    assert.notEqual((await asked(wanted)).status, 401) // not every body is a check: some are 400
    assert.equal((await asked(`${wanted.slice(0, -1)}${wanted.endsWith('0') ? 1 : 0}`)).status, 401)
  })
}

for (const { key, request, body, signature: wanted } of vectors('answer-signatures')) {
  test(`answer signatures: ${wanted.slice(0, 8)}`, () => assert.equal(answerSignature(key, request, body), wanted))
}

const bytes = (it) => (it === null ? null : typeof it === 'string' ? Buffer.from(it) : Buffer.from(it.base64, 'base64'))
const pairs = (headers) => headers.map(([name, value]) => [name, bytes(value)])

for (const { name, key_id: id, secret, topic, partition, time_ms, record, signature: wanted } of vectors('signed-records')) {
  test(`signed records: ${name}`, () => {
    const { key, value, headers } = record
    const given = { key: bytes(key), value: bytes(value), headers: pairs(headers) }
    assert.equal(recordSignature({ id, secret }, topic, partition, time_ms, given), wanted)
  })
}

const written = (object) => Object.entries(object).flatMap(([name, values]) => values.map((value) => [name, value]))
const text = (headers, name) => headers.find(([n]) => n === name)?.[1]?.toString()

// Halves that a producer of this kind would write: ours first, no other cb- header, and they are taken.
const OURS = ['cb-id', 'cb-group', 'cb-topic', 'cb-partition']
const form = ({ headers }) => {
  const own = headers.map(([name]) => name).filter((name) => name.startsWith('cb-'))
  return own.length >= 3 && own.every((name, i) => name === OURS[i] && headers[i][0] === name && headers[i][1] !== null)
}
const taken = ({ must }) => must.rejected.every(({ record }) => record === 'op')
const producers = vectors('records').filter((it) => form(it.half) && taken(it))

test('records: many of the cases are of our form', () => assert.ok(producers.length >= 20, `${producers.length}`))

for (const { name, half, ops } of producers) {
  test(`records: ${name}`, () => {
    const wanted = { key: bytes(half.key), value: bytes(half.value), headers: pairs(half.headers) }
    const [id, group, topic, partition] = OURS.map((header) => text(wanted.headers, header))
    const headers = wanted.headers.filter(([n]) => !n.startsWith('cb-'))
    const record = halfRecord(id, group, { topic, partition, key: wanted.key, value: wanted.value, headers })
    assert.deepEqual(record, wanted)
    if (headers.some(([, value]) => value === null)) {
      assert.throws(() => kafkajsHeaders(record.headers), /null/) // kafkajs cannot, and we say so
    } else {
      assert.deepEqual(written(kafkajsHeaders(record.headers)), wanted.headers)
    }
    for (const op of ops) {
      const given = pairs(op.headers)
      const action = text(given, 'cb-action')
      const like = opRecord({ id, partition: 3, offset: '81923' }, group, action)
      // Some ops in the vectors are wrong, or longer than need be, on purpose. The others are byte for byte ours.
      const ordinary = ['commit', 'rollback', 'unknown'].includes(action) && text(given, 'cb-id') === id &&
        text(given, 'cb-group') === group && text(given, 'cb-half') === '{half}' && given[0][0] === 'cb-id' &&
        given.length === 5 && text(given, 'cb-source') === 'producer'
      if (!ordinary) continue
      const placed = given.map(([n, value]) => (n === 'cb-half' ? [n, Buffer.from('3:81923')] : [n, value]))
      assert.deepEqual(like, { key: null, value: bytes(op.value), headers: placed })
      assert.deepEqual(written(kafkajsHeaders(like.headers)), placed)
    }
  })
}

test('what the job would reject is not sent', () => {
  const half = (message) => () => halfRecord('tx', 'orders', { topic: 'shop.orders', ...message })
  for (const topic of ['the orders', '', '.', 'x'.repeat(250), 'cb.half', '__consumer_offsets']) assert.throws(half({ topic }))
  for (const name of ['cb-later', 'a\0', 'a\ufffd', 'a\ud800']) assert.throws(half({ headers: [[name, '1']] }))
  for (const partition of [-1, 1.5, 1e9]) assert.throws(half({ partition }))
  assert.throws(half({ headers: Array(998).fill(['a', '']) }))
  assert.throws(half({ key: Buffer.alloc(1024 * 1024 + 1) }))
})

test('headers that kafkajs would put into another order are not sent', () => {
  const one = Buffer.from('1')
  assert.throws(() => kafkajsHeaders([['a', one], ['b', one], ['a', one]]), /order/)
  assert.throws(() => kafkajsHeaders([['a', one], ['1', one]]), /order/)
  assert.throws(() => kafkajsHeaders([['a', null]]), /null/)
  assert.deepEqual(written(kafkajsHeaders([['__proto__', one], ['a', one]])), [['__proto__', one], ['a', one]])
})

const tx = (id, more = {}) => ({ version: 1, id, group: 'orders', topic: 'shop.orders', ...more })

test('an endpoint leaves out of its answer what is not done in time, and what is no check of its group', async () => {
  const check = (id) => (id === 'slow' ? new Promise(() => {}) : Promise.resolve('commit'))
  const checks = [tx('slow'), tx('tx-1'), tx('tx-2', { group: 'others' }), 7]
  const said = await ask(checkEndpoint({ group: 'orders', check }), JSON.stringify({ version: 1, checks }))
  assert.deepEqual(JSON.parse(said.body), { answers: [{ id: 'tx-1', state: 'commit' }] })
})

test('an error of the application, and a word that is none, are unknown', async () => {
  for (const check of [() => { throw new Error('no database') }, async () => 'COMMIT']) {
    const said = await ask(checkEndpoint({ group: 'orders', check }), JSON.stringify(tx('tx-1')))
    assert.deepEqual([said.status, JSON.parse(said.body).state], [200, 'unknown'])
  }
})

test('what is no request for a check is refused', async () => {
  const endpoint = checkEndpoint({ group: 'orders', check: async () => 'commit' })
  for (const body of ['null', '[]', '"x"', '{}', '{"id":1,"group":"orders"}']) {
    assert.equal((await ask(endpoint, body)).status, 400)
  }
  assert.equal((await ask(endpoint, ' '.repeat(8 * 1024 * 1024 + 1))).status, 413)
  assert.equal((await ask(endpoint, '', {}, 'GET')).status, 405)
  assert.throws(() => checkEndpoint({ group: 'orders', key: '', check: async () => 'commit' }))
})
