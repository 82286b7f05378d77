// The pane and the commands of Foldmark in Claude Code. Nothing is decided here: the service keeps the conversation and
// computes what stays; this module hands over messages, draws, and starts the compaction that installs an edit.

import { drawn } from './pane.js'
import { PROGRAM } from './program.js'
import { ASKED, answered, snapshot } from './service.js'

const PANE = 'foldmark'
const STARTED = { timeoutMs: 30000 }
const PRICE_MS = 250
const LOOK_MS = 1000

/** What the pane shows, and what waits. */
const view = {
  rows: [],
  operations: [],
  tokens: 0,
  window: 0,
  ticked: new Set(),
  opened: new Set(),
  order: 'size',
  wanted: '',
  prices: [],
  text: '',
  asks: false,
  busy: '',
  waits: false,
}
let service
let running = false
let pricing = 0
let used = false
let newest = 0

function redraw($) {
  $.ui.invalidate('ui.render')
}

async function start($) {
  const { exitCode, stdout, stderr } = await $.process.run([PROGRAM, 'mod'], STARTED)
  if (exitCode !== 0) throw new Error(stderr.trim() || `${PROGRAM} mod failed`)
  service = JSON.parse(stdout)
  await $.state.set({ plugin: 'foldmark', key: 'service' }, { url: service.url, token: service.token })
}

/** Ask the service, starting it if it does not run. */
async function ask($, name, more = {}) {
  if (!service) await start($)
  let found = await answered($, service, name, more)
  if (found.gone) {
    await start($)
    found = await answered($, service, name, more)
  }
  return found
}

async function whole($, more = {}) {
  return { ...(await snapshot($)), ...more }
}

async function refresh($) {
  view.busy = view.busy || 'reading'
  const { order, wanted } = view
  const found = await ask($, 'pane', await whole($, { order, wanted, opened: [...view.opened] }))
  if (found.error) view.text = found.error
  else Object.assign(view, { rows: found.rows, operations: found.operations, tokens: found.tokens, window: found.window })
  const ids = new Set(view.rows.map(row => row.id))
  view.ticked = new Set([...view.ticked].filter(id => ids.has(id)))
  view.busy = ''
  redraw($)
  return found
}

/** Install what another program has changed in the conversation: it reaches the session while no turn runs. */
async function look($) {
  if (!used || running || view.busy) return
  const { operation = newest } = await ask($, 'newest', { session: await $.session.id() })
  if (operation === newest || running || view.busy) return
  newest = operation
  if ((await ask($, 'take', await whole($))).pending) await install($)
}

/** Install what the context shows, once no turn runs. `again`: an edit may leave a row that a second one takes out. */
async function install($, again = true) {
  if (running) {
    view.waits = true
    return
  }
  view.waits = false
  const { value: ready } = await $.state.get({ plugin: 'foldmark-edit', key: 'ready' })
  if (!ready) {
    view.text +=
      '\nNothing was changed in this session: the plugin foldmark-edit is not loaded, and without it Claude Code' +
      ' would summarize the conversation. `foldmark install claude` installs it; `foldmark live claude` edits without it.'
    return
  }
  const done = await $.session.compact({ instructions: ASKED })
  if (done.skip) view.text += `\n${done.skip}`
  const found = await ask($, 'take', await whole($))
  if (found.pending && again && !done.skip) await install($, false)
}

/** Return the answer of the session's model to a question of Foldmark's own, null if there is none. */
async function complete($, { system, prompt }) {
  try {
    const said = await $.model.complete({ model: await $.session.model(), system, prompt })
    return said.isAnswered ? said.text : null
  } catch {
    return null
  }
}

/** Carry out a command, and show what it answers. */
async function carryOut($, line) {
  view.busy = line
  view.asks = false
  redraw($)
  try {
    let found = await ask($, 'do', await whole($, { line, working: running }))
    while (found.ask) found = await ask($, 'answer', { session: await $.session.id(), text: await complete($, found.ask) })
    view.text = found.text ?? found.error ?? ''
    view.asks = view.text.includes('Answer /fm yes')
    if (found.pending) await install($)
    if (view.waits) view.text += '\nThe agent works: this takes effect when its turn ends.'
  } catch (error) {
    view.text = `foldmark: ${error.message ?? error}`
  }
  view.ticked.clear()
  view.prices = []
  await refresh($)
}

async function search($, words) {
  view.busy = `search ${words}`
  redraw($)
  const { stdout, stderr } = await $.process.run([PROGRAM, 'search', ...words.split(/\s+/)], STARTED)
  Object.assign(view, { text: stdout.trim() || stderr.trim() || 'Nothing was found.', busy: '', asks: false })
  redraw($)
}

function price($) {
  const mine = ++pricing
  $.clock.after(PRICE_MS, async () => {
    if (mine !== pricing) return
    const asked = { session: await $.session.id(), ticked: [...view.ticked] }
    const found = view.ticked.size ? await ask($, 'price', asked) : { prices: [] }
    if (mine === pricing) view.prices = found.prices ?? []
    redraw($)
  })
}

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
    view.order = view.order === 'size' ? 'newest' : 'size'
    return refresh($)
  },
  filter: text => {
    view.wanted = text
    return refresh($)
  },
  run: line => carryOut($, line),
  close: () => {
    Object.assign(view, { text: '', asks: false })
    redraw($)
  },
  }
}

/** @type {import('claude-code').Register} */
export const register = on => {
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
    if (!used) $.clock.every(LOOK_MS, () => look($))
    used = true
    const line = e.args.trim()
    view.busy = line || 'reading'
    await $.ui.open({ id: PANE, title: 'Foldmark', focus: true, closeOnEscape: true, rows: 24 })
    const [word, ...rest] = line.split(/\s+/)
    // A compaction cannot be started inside of a command.
    $.clock.after(0, async () => {
      try {
        if (word === 'search' && rest.length) await search($, rest.join(' '))
        else if (line) await carryOut($, line)
        else if ((await refresh($)).pending) await install($)
      } catch (error) {
        Object.assign(view, { text: `foldmark: ${error.message ?? error}`, busy: '' })
        redraw($)
      }
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
    running = false
    if (used) {
      $.clock.after(0, async () => {
        const found = await ask($, 'take', await whole($))
        if (found.pending && !running) await install($)
        await refresh($)
      })
    }
    return done
  })

  on('ui.render', { component: 'Pane', requestId: PANE }, ($, e) => drawn($, e, view, actions($)))
}
