// The pane and the commands of Foldmark in Claude Code. Nothing is decided here: the service keeps the conversation and
// computes what stays; this module hands over messages, draws, and starts the compaction that installs an edit.

import { drawn } from './pane.js'
import { PROGRAM } from './program.js'
import { ASKED, answered, said, snapshot } from './service.js'

/** @typedef {import('claude-code').EngineInterface} Engine */

const PANE = 'foldmark'
const STARTED = { timeoutMs: 30000 }
const PRICE_MS = 250
const LOOK_MS = 1000
const LONGEST_PAUSE = 60
const LONGEST_ANSWER = 8000 // tokens that every model can answer

/** What the pane shows, and what waits. @type {import('./view.d.ts').View} */
const view = {
  rows: [], operations: [], tokens: 0, window: 0,
  order: 'size', wanted: '', page: 0, ticked: new Set(), opened: new Set(), prices: [],
  text: '', asks: false, busy: '', waits: false,
}
/** @type {import('./service.js').Service | undefined} */
let service
let running = false
let installing = false
let pricing = 0
let used = false
let newest = 0
let failures = 0
let pause = 0

/** @param {Engine} $ */
const redraw = $ => $.ui.invalidate('ui.render')

/** @param {Engine} $ */
async function start($) {
  const { exitCode, stdout, stderr } = await $.process.run([PROGRAM, 'mod'], STARTED)
  if (exitCode !== 0) throw new Error(stderr.trim().replace(/^foldmark: /, '') || `${PROGRAM} mod failed`)
  const { url, token, socket } = JSON.parse(stdout)
  service = { url, token, socket }
}

/** Ask the service, starting it if it does not run. Failures are answers with an `error`. A question is repeated only to
 * another service: one that runs may have carried it out.
 * @param {Engine} $ @param {string} name @param {Record<string, unknown> | Promise<Record<string, unknown>>} more */
async function ask($, name, more = {}) {
  try {
    const asked = await more
    if (!service) await start($)
    const before = service
    const found = await answered($, before, name, asked)
    if (!found.gone) return found
    await start($)
    return service?.token === before?.token ? found : await answered($, service, name, asked)
  } catch (error) {
    return { error: said(error) }
  }
}

/** @param {Engine} $ @param {Record<string, unknown>} [more] */
const whole = async ($, more = {}) => ({ ...(await snapshot($)), ...more })

/** @param {Engine} $ */
async function refresh($) {
  view.busy = view.busy || 'reading'
  redraw($)
  const { order, wanted } = view
  const found = await ask($, 'pane', whole($, { order, wanted, opened: [...view.opened] }))
  if (found.error && !view.text.includes(found.error)) view.text = `${view.text}\nfoldmark: ${found.error}`.trim()
  if (!found.error) Object.assign(view, { rows: found.rows, operations: found.operations, tokens: found.tokens, window: found.window })
  const ids = new Set(view.rows.map(row => row.id))
  view.ticked = new Set([...view.ticked].filter(id => ids.has(id)))
  view.busy = ''
  redraw($)
  return found
}

/** Install what another program has changed in the conversation: it reaches the session while no turn runs. After each
 * failure it looks half as often, because every look without a service starts a program.
 * @param {Engine} $ */
async function look($) {
  if (!used || running || view.busy || --pause > 0) return
  pause = LONGEST_PAUSE
  const { error, operation = newest } = await ask($, 'newest', { session: await $.session.id(), folder: await $.session.root() })
  failures = error ? failures + 1 : 0
  pause = Math.min(LONGEST_PAUSE, 2 ** failures)
  if (operation === newest || running || view.busy) return
  newest = operation
  if ((await ask($, 'take', whole($))).pending) await install($)
}

/** Install what the context shows, once no turn runs. An edit may leave a row that a second compaction takes out.
 * @param {Engine} $ */
async function install($) {
  if (installing || (view.waits = running)) return // an installation looks again at its end
  installing = true
  try {
    // foldmark-edit needs it, and says that it is there. Both are lost with the session, as at /clear.
    if (service) await $.state.set({ plugin: 'foldmark', key: 'service' }, service)
    const { value: ready } = await $.state.get({ plugin: 'foldmark-edit', key: 'ready' })
    const managed = Object.keys((await $.settings.read({ source: 'policy' })) ?? {}).length > 0
    const missing = ready ? '' : 'the plugin foldmark-edit is not loaded (`foldmark install claude` installs it)'
    const why = managed ? 'an organization manages this machine' : missing
    if (why) view.text += `\nNothing was changed in this session: ${why}, and Claude Code could summarize the conversation instead. \`foldmark live claude\` edits without plugins.`
    for (let [times, pending] = [0, !why]; pending && times < 2; times += 1) {
      const done = await $.session.compact({ instructions: ASKED }).catch(error => ({ skip: `foldmark: ${said(error)}` }))
      // A prompt may have been quicker than the edit, before its turn is known here.
      view.waits = 'skip' in done && done.skip.includes('between turns')
      if ('skip' in done && !view.waits) view.text += `\n${done.skip}`
      pending = (await ask($, 'take', whole($))).pending && !('skip' in done)
    }
  } finally {
    installing = false
  }
}

/** Return the answer of the session's model to a question of Foldmark's own, null if there is none.
 * @param {Engine} $ @param {{ system: string, prompt: string }} question */
async function complete($, { system, prompt }) {
  try {
    const reply = await $.model.complete({ model: await $.session.model(), system, prompt, maxTokens: LONGEST_ANSWER })
    return reply.isAnswered && reply.usage.output_tokens < LONGEST_ANSWER ? reply.text : null // a cut one is none
  } catch {
    return null
  }
}

/** Carry out a command, and show what it answers.
 * @param {Engine} $ @param {string} line */
async function carryOut($, line) {
  view.busy = line
  view.asks = false
  redraw($)
  try {
    let found = await ask($, 'do', whole($, { line, working: running }))
    while (found.ask) found = await ask($, 'answer', { session: await $.session.id(), text: await complete($, found.ask) })
    view.text = found.text ?? `foldmark: ${found.error}`
    view.asks = view.text.includes('Answer /fm yes')
    if (found.pending) await install($)
  } catch (error) {
    view.text = `foldmark: ${said(error)}`
  }
  view.ticked.clear()
  view.prices = []
  await refresh($)
}

/** @param {Engine} $ @param {string} words */
async function search($, words) {
  view.busy = `search ${words}`
  redraw($)
  const { stdout, stderr } = await $.process.run([PROGRAM, 'search', ...words.split(/\s+/)], STARTED)
  Object.assign(view, { text: stdout.trim() || stderr.trim() || 'Nothing was found.', busy: '', asks: false })
  redraw($)
}

/** @param {Engine} $ */
function price($) {
  const mine = ++pricing
  view.prices = []
  $.clock.after(PRICE_MS, async () => {
    if (mine !== pricing) return
    const asked = { session: await $.session.id(), ticked: [...view.ticked] }
    const found = view.ticked.size ? await ask($, 'price', asked) : { prices: [] }
    if (mine === pricing) view.prices = found.prices ?? []
    redraw($)
  })
}

/** @param {Engine} $ @returns {import('./view.d.ts').Actions} */
function actions($) {
  return {
    tick: id => {
      view.ticked.has(id) ? view.ticked.delete(id) : view.ticked.add(id)
      price($)
      redraw($)
    },
    open: id => {
      view.opened.has(id) ? view.opened.delete(id) : view.opened.add(id)
      return refresh($)
    },
    sort: () => {
      Object.assign(view, { order: view.order === 'size' ? 'newest' : 'size', page: 0 })
      return refresh($)
    },
    more: () => {
      view.page += 1
      redraw($)
    },
    filter: text => {
      Object.assign(view, { wanted: text, page: 0 })
      return refresh($)
    },
    run: async line => {
      if (line) return carryOut($, line)
      view.text = 'Nothing of that kind is ticked: Enter on a row ticks it.'
      redraw($)
    },
    close: () => {
      Object.assign(view, { text: '', asks: false })
      redraw($)
    },
  }
}

/** Do something when the hook that asks for it has ended, and show why it fails.
 * @param {Engine} $ @param {() => Promise<unknown>} act */
function later($, act) {
  $.clock.after(0, async () => {
    try {
      await act()
    } catch (error) {
      Object.assign(view, { text: `foldmark: ${said(error)}`, busy: '' })
      redraw($)
    }
  })
}

/** @param {import('claude-code').On} on */
export function register(on) {
  on('session.start', async ($, e, next) => {
    await $.command.register({
      name: 'fm',
      description: 'Foldmark: what fills the context, and what to take out of it',
      argumentHint: '[drop ID | evict ID | forget WHAT | restore ID | undo | mark NAME | clear | help]',
      immediate: true,
    })
    return next(e)
  })

  on('command.run', { command: 'fm' }, async ($, e) => {
    if (!used) $.clock.every(LOOK_MS, () => look($).catch(() => {}))
    used = true
    pause = 0
    const line = e.args.trim()
    Object.assign(view, { busy: line || 'reading', text: '', asks: false, page: 0 })
    await $.ui.open({ id: PANE, title: 'Foldmark', focus: true, closeOnEscape: true, rows: 24 })
    const [word, ...rest] = line.split(/\s+/)
    // A compaction cannot be started inside of a command.
    later($, async () => {
      if (word === 'search' && rest.length) await search($, rest.join(' '))
      else if (line) await carryOut($, line)
      else if ((await refresh($)).pending) await install($)
    })
    return {}
  })

  on('turn.start', ($, e, next) => {
    if (e.agentId === undefined) running = true
    return next(e)
  })

  on('turn.complete', async ($, e, next) => {
    const done = await next(e)
    if (e.agentId !== undefined) return done
    running = view.waits = false
    pause = 0
    if (used)
      later($, async () => {
        if ((await ask($, 'take', whole($))).pending) await install($)
        await refresh($)
      })
    return done
  })

  on('ui.render', { component: 'Pane', requestId: PANE }, ($, e) => drawn($, e, view, actions($)))
}
