// Tests of the plugins' modules. The folder of the written plugins is in PLUGINS; pytest runs this file with node.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Client } from './harness.mjs'

const FOLDER = process.env.PLUGINS
const { fitted, size, wide } = await import(`${FOLDER}/foldmark/hooks/pane.js`)
const ASKED = 'foldmark: install the edit'
const ESCAPE = '\u001b'

const turn = (id, tokens, more = {}) => ({ id, turn: id, title: `Turn ${id}`, tokens, share: tokens / 14000, tool: '', calls: 0, pinned: false, evicted: false, shortened: false, results: 0, ...more })
const result = (id, of, tokens, more = {}) => turn(id, tokens, { turn: of, title: 'Read parser.py', tool: 'Read', ...more })
const ROWS = [turn(18, 14000, { calls: 1 }), turn(22, 11000, { calls: 9, results: 2 }), turn(31, 6000)]
const PANE = { tokens: 128000, window: 200000, rows: ROWS, operations: [], pending: false }

/** Return a service that answers from a table; a function in it gets what is asked. */
function table(answers = {}) {
  const all = { pane: PANE, take: { pending: false }, newest: { operation: 0 }, price: { prices: [] }, do: { text: 'Done.' }, ...answers }
  return (name, asked) => (typeof all[name] === 'function' ? all[name](asked) : all[name])
}

const both = (answers = {}) => new Client(table(answers)).load(FOLDER, 'foldmark', 'foldmark-edit')

/** A table of a service with one edit: it is pending until it is installed. */
function editing(more = {}) {
  let pending = false
  return {
    do: () => ((pending = true), { text: 'It left.', pending: true }),
    take: () => ({ pending }),
    install: () => ((pending = false), { rows: [{ role: 'user', text: 'stays', toolUses: [], handle: 'h1' }] }),
    ...more,
  }
}

test('/fm opens the pane and leaves nothing in the context', async () => {
  const client = await both()
  assert.deepEqual(client.commands.map(each => [each.name, each.immediate]), [['fm', true]])
  assert.deepEqual(await client.fm(), {})
  assert.deepEqual(client.opened.map(each => [each.id, each.focus, each.closeOnEscape]), [['foldmark', true, true]])
  assert.deepEqual(client.ran, [['/opt/foldmark', 'mod']])
  const [name, asked, token] = client.asked[0]
  assert.equal(name, 'pane')
  assert.equal(token, 'first')
  assert.deepEqual([asked.session, asked.folder, asked.model, asked.besides, asked.window], ['session-1', '/work', 'claude-sonnet-4-6', 7, 200000])
})

test('the pane shows sizes, shares, calls and ticks in columns', async () => {
  const client = await both()
  await client.fm()
  await client.press('row-22')
  const lines = await client.lines()
  assert.equal(lines[0], 'Context · 128K of 200K (64%)')
  const rows = lines.filter(line => /^\[.\] /.test(line))
  assert.match(rows[0], /^\[ \] 18  Turn 18 +14K █{12} 1 call/)
  assert.match(rows[1], /^\[x\] 22  Turn 22 +11K █{10}   9 calls/)
  assert.match(rows[2], /^\[ \] 31  Turn 31 +6\.0K █{6} {6}/)
  assert.ok(lines.includes('1 turn ticked, 11K'))
})

test('ticked turns are priced and dropped', async () => {
  const client = await both({ price: asked => ({ prices: [{ key: 'd', what: `drops ${asked.ticked}`, text: '62K → 44K' }] }) })
  await client.fm()
  for (const key of ['d', 'e']) await client.press(key)
  assert.deepEqual(client.executed, [])
  assert.ok((await client.lines()).includes('Nothing of that kind is ticked: Enter on a row ticks it.'))
  await client.press('row-22')
  await client.press('row-18')
  await client.pass(1000)
  assert.deepEqual(client.asked.filter(([name]) => name === 'price').map(([, asked]) => asked.ticked), [[22, 18]])
  assert.ok((await client.lines()).includes('d drops 22,18: 62K → 44K'))
  await client.press('row-18')
  assert.ok(!(await client.lines()).some(line => line.includes('62K → 44K')), 'a price of other ticks')
  await client.press('row-18')
  await client.press('d')
  assert.deepEqual(client.executed, ['drop 18 22'])
  assert.ok((await client.lines()).includes('Done.'))
  await client.press('d')
  assert.deepEqual(client.executed, ['drop 18 22'])
})

test('results are children of their turn, and are evicted', async () => {
  const rows = asked => (asked.opened.includes(22) ? [ROWS[1], result(40, 22, 9000), result(41, 22, 800, { evicted: true })] : ROWS)
  const client = await both({ pane: asked => ({ ...PANE, rows: rows(asked) }) })
  await client.fm()
  assert.equal(await client.find('open-18'), undefined)
  await client.press('open-22')
  await client.press('row-40')
  const lines = await client.lines()
  assert.ok(lines.some(line => /^\[x\] 40 {4}Read parser.py +9\.0K /.test(line)))
  assert.ok(lines.some(line => /^\[ \] 41 {4}Read parser.py +800 █.* evicted/.test(line)))
  assert.ok(lines.includes('1 result ticked, 9.0K'))
  await client.press('d')
  await client.press('e')
  assert.deepEqual(client.executed, ['evict 40'])
})

test('the results of a ticked turn are evicted with the priced command', async () => {
  const client = await both({ price: { prices: [{ key: 'e', what: 'evicts 2 results', text: '62K → 50K', line: 'evict 40 41' }] } })
  await client.fm()
  await client.press('row-22')
  await client.press('e')
  await client.pass(1000)
  await client.press('e')
  assert.deepEqual(client.executed, ['evict 40 41'])
})

test('forget asks for yes or no', async () => {
  const offered = []
  const client = await both({
    do: async ({ line }) => (offered.push(await client.find('y')), { text: line === 'yes' ? 'They left.' : '2 turns.\nAnswer /fm yes or /fm no.' }),
  })
  assert.equal(await client.find('y'), undefined)
  await client.fm('forget the cache')
  await client.type('answer', 'all but 2')
  await client.press('y')
  assert.equal(await client.find('y'), undefined)
  await client.fm('forget the cache')
  await client.press('n')
  assert.deepEqual(client.executed, ['forget the cache', 'all but 2', 'yes', 'forget the cache', 'no'])
  assert.deepEqual(offered, Array(5).fill(undefined), 'an answer can be given twice')
})

test('the model of the session answers what the service asks', async () => {
  const ask = { system: 'Choose.', prompt: 'Which?', tokens: 100 }
  const said = []
  const client = await both({ do: { ask }, answer: asked => (said.push(asked.text), said.length < 2 ? { ask } : { text: `It said ${asked.text}.` }) })
  await client.fm('forget the cache')
  assert.deepEqual(client.completed, Array(2).fill({ model: 'claude-sonnet-4-6', system: 'Choose.', prompt: 'Which?', maxTokens: 8000 }))
  assert.deepEqual(said, ['[2]', '[2]'])
  assert.ok((await client.lines()).includes('It said [2].'))
})

test('a model that gives no answer is no answer', async () => {
  const said = []
  const cut = { isAnswered: true, text: 'the beginning', usage: { output_tokens: 8000 } }
  for (const model of [() => cut, () => ({ isAnswered: false, text: 'half', reason: 'aborted' }), () => Promise.reject(new Error('refused'))]) {
    const client = await both({ do: { ask: { system: '', prompt: '' } }, answer: asked => (said.push(asked.text), { text: 'foldmark: none' }) })
    client.model = model
    await client.fm('forget the cache')
    assert.ok((await client.lines()).includes('foldmark: none'))
  }
  assert.deepEqual(said, [null, null, null])
})

test('an edit is installed by the other plugin', async () => {
  const client = await both(editing())
  client.messages = [{ role: 'user', content: [] }]
  await client.fm('drop 18')
  assert.deepEqual(client.compactions, [{ messages: [{ role: 'user', text: 'stays', toolUses: [], handle: 'h1' }] }])
  assert.equal(client.summarized, 0)
  const [, asked] = client.asked.find(([name]) => name === 'install')
  assert.deepEqual([asked.rows, asked.session], [client.messages, 'session-1'])
})

test('an edit is installed a second time at most', async () => {
  const client = await both({ ...editing(), take: { pending: true } })
  await client.fm('drop 18')
  assert.equal(client.compactions.length, 2)
})

test('the pane says why an edit is not installed', async () => {
  const client = await both(editing({ install: { skip: 'the provider would refuse it' } }))
  await client.fm('drop 18')
  assert.ok((await client.lines()).includes('Foldmark: the provider would refuse it. The conversation is as it was.'))
  assert.equal(client.compactions.length, 1)
})

test('a turn of an agent holds nothing up', async () => {
  const client = await both(editing())
  await client.raise('turn.start', { agentId: 'agent' })
  await client.fm('drop 18')
  assert.equal(client.compactions.length, 1)
})

test('an edit in a running turn waits for its end', async () => {
  const client = await both(editing())
  await client.raise('turn.start', {})
  await client.raise('turn.start', { agentId: 'agent' })
  await client.fm('drop 18')
  assert.deepEqual(client.compactions, [])
  assert.ok((await client.lines()).includes('The agent works: this takes effect when its turn ends.'))
  assert.equal(client.asked.find(([name]) => name === 'do')[1].working, true)
  await client.raise('turn.complete', { agentId: 'agent' })
  await client.pass(0)
  assert.deepEqual(client.compactions, [])
  assert.deepEqual(await client.raise('turn.complete', {}, { text: 'Answer.' }), { text: 'Answer.' })
  await client.pass(0)
  assert.equal(client.compactions.length, 1)
})

test('an edit behind which a prompt was quicker waits, and its receipt stays', async () => {
  const client = await both(editing())
  client.failing.add('compact: a turn is in flight; the conversation compacts between turns')
  await client.fm('drop 18')
  const lines = await client.lines()
  assert.ok(lines.includes('It left.') && lines.includes('The agent works: this takes effect when its turn ends.'))
  client.failing.clear()
  await client.raise('turn.complete', {})
  await client.pass(0)
  assert.equal(client.compactions.length, 1)
  const after = await client.lines()
  assert.ok(after.includes('It left.') && !after.some(line => line.startsWith('The agent works')))
})

test('edits are installed after /clear, which forgets all state', async () => {
  const client = await both(editing())
  for (const number of [1, 2]) {
    await client.fm('drop 18')
    assert.equal(client.compactions.length, number)
    client.state.clear()
  }
})

test('two edits at once are installed one after the other', async () => {
  let operation = 0
  const client = await both({ ...editing(), newest: () => ({ operation }) })
  await client.fm()
  let open
  client.holds = new Promise(resolve => (open = resolve))
  const first = client.fm('drop 18')
  while (client.compacting === 0) await new Promise(setImmediate)
  await client.raise('turn.complete', {})
  const second = client.pass(0)
  await new Promise(resolve => setTimeout(resolve, 20))
  assert.equal(client.compacting, 1)
  open()
  await Promise.all([first, second])
  assert.equal(client.compacting, 0)
  assert.ok((await client.lines()).includes('It left.'))
})

test('an edit of another program is installed while no turn runs', async () => {
  let operation = 0
  const client = await both({ ...editing(), newest: () => ({ operation }) })
  await client.fm('undo')
  const before = client.compactions.length
  await client.pass(5000)
  assert.equal(client.compactions.length, before)
  client.service = table({ ...editing({ take: () => ({ pending: client.compactions.length === before }) }), newest: () => ({ operation: 9 }) })
  await client.raise('turn.start', {})
  const questions = client.asked.length
  await client.pass(5000)
  assert.equal(client.asked.length, questions)
  await client.raise('turn.complete', {})
  await client.pass(5000)
  assert.equal(client.compactions.length, before + 1)
  const takes = client.asked.filter(([name]) => name === 'take').length
  await client.pass(5000)
  assert.equal(client.asked.filter(([name]) => name === 'take').length, takes)
})

test('a service that cannot be reached is looked for ever less often', async () => {
  const client = await both()
  await client.fm('undo')
  client.service = () => {
    throw new Error('refused')
  }
  const before = client.started
  await client.pass(10 * 60_000)
  const tried = client.started - before
  assert.ok(tried >= 10 && tried <= 20, `${tried} starts in ten minutes`)
  for (const wakes of [() => client.fm(), () => client.raise('turn.complete', {})]) {
    client.service = () => {
      throw new Error('refused')
    }
    await client.pass(10 * 60_000)
    client.service = table({ newest: () => ({ operation: 9 }) })
    await wakes()
    const looks = client.asked.length
    await client.pass(5000)
    assert.ok(client.asked.slice(looks).filter(([name]) => name === 'newest').length >= 4)
  }
})

test('nothing is compacted without the other plugin, and the pane says why', async () => {
  const client = await new Client(table(editing())).load(FOLDER, 'foldmark')
  await client.fm('drop 18')
  assert.deepEqual(client.compactions, [])
  assert.ok((await client.lines()).some(line => line.includes('foldmark-edit is not loaded')))
})

test('nothing is compacted on a managed machine, and the pane says why', async () => {
  const client = await both(editing())
  client.policy = { permissions: {} }
  await client.fm('drop 18')
  assert.deepEqual(client.compactions, [])
  assert.ok((await client.lines()).some(line => line.includes('an organization manages this machine')))
})

test('a service that is gone is started again, once', async () => {
  const client = await both()
  const alive = client.service
  await client.fm()
  client.service = (name, asked, token) => {
    if (token === 'first') throw new Error('ECONNREFUSED')
    return alive(name, asked)
  }
  client.token = 'second'
  await client.fm('undo')
  assert.equal(client.started, 2)
  assert.ok((await client.lines()).includes('Done.'))
  client.service = table(editing())
  await client.fm('drop 18')
  assert.deepEqual(client.state.get('foldmark.service'), { url: 'http://127.0.0.1:1', token: 'second', socket: '/run/fm.sock' })
})

test('a question that fails is not repeated to the service that runs', async () => {
  const client = await both({ do: () => Promise.reject(new Error('it took too long')) })
  await client.fm('undo')
  assert.deepEqual(client.executed, ['undo'])
  assert.ok((await client.lines()).includes('foldmark: the service does not answer (it took too long)'))
})

test('errors are shown', async () => {
  const client = await both({ do: { error: 'the database is away' }, pane: { error: 'no session' } })
  await client.fm('undo')
  let lines = await client.lines()
  assert.ok(lines.includes('foldmark: the database is away') && lines.includes('foldmark: no session'))
  client.service = () => 'no JSON'
  await client.press('u')
  lines = await client.lines()
  assert.ok(lines.some(line => line.startsWith('foldmark: the service does not answer')))
  assert.ok(!lines[0].includes('…'))
})

test('a failing start, client or compaction is shown and never thrown', async () => {
  let client = await both()
  client.program = () => ({ exitCode: 1, stdout: '', stderr: 'foldmark: no such file\n' })
  await client.fm()
  assert.ok((await client.lines()).filter(line => line === 'foldmark: no such file').length === 1)
  await client.press('s')
  client = await both()
  client.failing.add('messages')
  await client.fm('undo')
  assert.ok((await client.lines()).includes('foldmark: messages failed'))
  client = await both({ ...editing(), pane: { ...PANE, pending: true } })
  client.failing.add('compact')
  for (const line of ['drop 18', '']) {
    await client.fm(line)
    const lines = await client.lines()
    assert.ok(lines.includes('foldmark: compact failed'), line)
    assert.ok(!line || lines.includes('It left.'), 'the receipt of what was recorded')
  }
})

test('the filter, the order and the undo ask the service', async () => {
  const client = await both()
  await client.fm()
  await client.type('filter', 'parser')
  await client.press('s')
  await client.press('u')
  const panes = client.asked.filter(([name]) => name === 'pane').map(([, asked]) => [asked.wanted, asked.order])
  assert.deepEqual(panes, [['', 'size'], ['parser', 'size'], ['parser', 'newest'], ['parser', 'newest']])
  assert.deepEqual(client.executed, ['undo'])
})

test('an operation is taken back by its button', async () => {
  const client = await both({ pane: { ...PANE, operations: [{ id: 412, text: '✂ turn 3 dropped by you' }] } })
  await client.fm()
  await client.press('back-412')
  assert.deepEqual(client.executed, ['restore 412'])
})

test('a search shows what the program prints', async () => {
  const client = await both()
  const mod = client.program
  client.program = words => (words[1] === 'search' ? { exitCode: 0, stdout: 'found it\n', stderr: '' } : mod(words))
  await client.fm('search two words')
  assert.deepEqual(client.ran.at(-1), ['/opt/foldmark', 'search', 'two', 'words'])
  assert.ok((await client.lines()).includes('found it'))
  await client.press('c')
  assert.ok(!(await client.lines()).includes('found it'))
})

test('no more rows are drawn than fit', async () => {
  const rows = Array.from({ length: 1000 }, (_, at) => turn(at + 1, 5000 - at))
  const client = await both({ pane: { ...PANE, rows, operations: Array(8).fill({ id: 1, text: 'op' }) } })
  await client.fm()
  const ids = async () => (await client.elements()).filter(each => /^row-/.test(each.props.key)).map(each => each.props.key)
  for (const [height, wanted] of [[50, 40], [24, 18], [12, 6], [3, 4]]) {
    client.rows = height
    assert.equal((await ids()).length, wanted, `${height} rows`)
  }
  client.rows = 24
  assert.ok((await client.find('m')).props.label.startsWith('… 982 more rows'))
  await client.press('m')
  assert.deepEqual([(await ids())[0], (await ids()).length], ['row-19', 18])
  for (let page = 2; page < 56; page += 1) await client.press('m')
  assert.equal((await ids()).at(-1), 'row-1000')
  assert.ok((await client.find('m')).props.label.startsWith('… back'))
  await client.press('m')
  assert.equal((await ids())[0], 'row-1')
  client.service = table({ pane: { ...PANE, rows }, do: { text: 'line\n'.repeat(9) } })
  await client.press('u')
  assert.ok((await client.lines()).length <= 24)
})

test('each row is as wide as the pane, whatever its title', async () => {
  const titles = ['Fix the parser', '修复解析器的错误并且再次运行所有的测试然后再写一份很长的报告给大家看', '🎉🎉 party 🎉'.repeat(9), '👩‍👩‍👧 family ❤️ 👍🏽 🇩🇪', 'e\u0301 combined', 'x'.repeat(300), '']
  for (const title of titles) {
    for (const width of [40, 56, 76, 96, 156]) {
      const client = await both({ pane: { ...PANE, rows: [turn(3, 9000, { title }), turn(12345, 123456, { title, calls: 999 })] } })
      client.width = width
      await client.fm()
      const buttons = (await client.elements()).filter(each => /^row-/.test(each.props.key))
      const widths = buttons.map(each => wide(each.children.map(text => text.children.join('')).join('')))
      assert.ok(widths[0] === widths[1] && widths[0] <= width - 2 && widths[0] > width - 6, `${title} ${width}: ${widths}`)
    }
  }
})

test('texts are cut and filled by cells', () => {
  assert.equal(fitted('abc', 5), 'abc  ')
  assert.equal(fitted('abcdef', 5), 'abcd…')
  assert.equal(fitted('漢字漢字', 6), '漢字… ')
  assert.equal(fitted('漢字', 4), '漢字')
  assert.equal(fitted('e\u0301a', 3), 'e\u0301a ')
  assert.equal(fitted('👍🏽🇩🇪', 5), '👍DE ')
  assert.deepEqual([0, 842, 3140, 9949, 9950, 21000, 999499, 1200000].map(size), ['0', '842', '3.1K', '9.9K', '10K', '21K', '999K', '1.2M'])
})

test('foldmark-edit answers only the compactions of the other plugin', async () => {
  const client = await both(editing())
  await client.fm('drop 18')
  const raise = e => client.raise('session.compact', { trigger: 'plugin', messages: [], instructions: ASKED, ...e }, 'summary')
  assert.equal(await raise({ trigger: 'manual' }), 'summary')
  assert.equal(await raise({ trigger: 'auto' }), 'summary')
  assert.equal(await raise({ instructions: 'keep the plan' }), 'summary')
  assert.equal(await raise({ instructions: undefined }), 'summary')
  assert.equal(await raise({ agentId: 'agent' }), 'summary')
  assert.ok((await raise({})).messages)
})

test('foldmark-edit never lets the client summarize because of a failure', async () => {
  const raise = client => client.raise('session.compact', { trigger: 'plugin', messages: [], instructions: ASKED }, 'summary')
  const failures = {
    'there is no answer': {},
    'the context is as it is sent already': { skip: 'the context is as it is sent already' },
    'the database is away': { error: 'the database is away' },
    'does not answer': () => Promise.reject(new Error('ECONNREFUSED')),
  }
  for (const [said, install] of Object.entries(failures)) {
    const client = await both({ ...editing(), install })
    await client.fm('drop 18')
    const answer = await raise(client)
    assert.ok(answer.skip?.includes(said) && answer.skip.includes('as it was'), JSON.stringify(answer))
  }
  const idle = await both()
  assert.ok((await raise(idle)).skip.includes('does not run'))
  const broken = await both(editing())
  await broken.fm('drop 18')
  broken.failing.add('messages')
  assert.ok((await raise(broken)).skip.includes('the edit failed'))
  for (const answer of ['null', '[]', '{"rows": null}', 'no JSON', '']) {
    const client = await both({ ...editing(), install: () => answer })
    await client.fm('drop 18')
    assert.ok((await raise(client)).skip, answer)
  }
})

test('texts of a session cannot control the terminal', async () => {
  const hostile = `red ${ESCAPE}[31m\u202e\r\nTAB\t\u0007`
  const client = await both({ pane: { ...PANE, rows: [turn(1, 100, { title: hostile })], operations: [{ id: 1, text: hostile }] }, do: { text: hostile } })
  await client.fm('undo')
  for (const line of await client.lines()) assert.doesNotMatch(line, /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/)
})
