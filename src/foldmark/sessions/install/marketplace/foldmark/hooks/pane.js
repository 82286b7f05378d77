// The pane: what fills the context, and what can be done with what is ticked.

const K = 1000
const SEVERAL = 4 // rows of turns that stay, however long the reply is
const TALL = 30 // rows of a pane that shows more than the newest operations
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u
const FLAT = /[\p{Mn}\p{Me}\p{Cf}]/u
// Terminals disagree about the width of joined, styled and coloured emoji, and of flags: their parts are shown.
const JOINS = /[\u200d\ufe0e\ufe0f\u{1f3fb}-\u{1f3ff}]/gu
const FLAGS = /[\u{1f1e6}-\u{1f1ff}]/gu

const STEERING = /[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g

/** Return a text that cannot control the terminal. @param {string} text */
const safe = text => text.replace(STEERING, '')

/** @param {string} text */
function plain(text) {
  return safe(text).replace(JOINS, '').replace(FLAGS, flag => String.fromCodePoint((flag.codePointAt(0) ?? 0) - 0x1f1e6 + 0x41))
}

/** @param {string} char */
const cells = char => (FLAT.test(char) ? 0 : WIDE.test(char) ? 2 : 1)

/** Return the number of cells of a text in a terminal. @param {string} text */
export const wide = text => [...text].reduce((sum, char) => sum + cells(char), 0)

/** Return a text in exactly so many cells: filled with spaces, or cut with `…`. @param {string} text @param {number} width */
export function fitted(text, width) {
  const shown = plain(text)
  const whole = wide(shown)
  if (whole <= width) return shown + ' '.repeat(width - whole)
  let [cut, used] = ['', 0]
  for (const char of shown) {
    if (used + cells(char) > width - 1) break
    cut += char
    used += cells(char)
  }
  return `${cut}…${' '.repeat(width - 1 - used)}`
}

/** Return a number of tokens in short: `842`, `3.1K`, `21K`, `1.2M`. @param {number} tokens */
export function size(tokens) {
  if (tokens < K) return `${tokens}`
  if (tokens < 9.95 * K) return `${(tokens / K).toFixed(1)}K`
  return tokens < 999.5 * K ? `${Math.round(tokens / K)}K` : `${(tokens / K / K).toFixed(1)}M`
}

/** @param {number} number @param {string} word */
const count = (number, word) => `${number} ${word}${number === 1 ? '' : 's'}`

/** Return the number of rows of a text that is wrapped. @param {string} text @param {number} width */
function height(text, width) {
  return text.split('\n').reduce((sum, each) => sum + Math.max(1, Math.ceil(wide(each) / width)), 0)
}

/** Return the texts of a row: what is in front of its bar, the bar, and what is behind it.
 * @param {import('./view.d.ts').Row} row @param {boolean} ticked @param {number} width @param {number} digits */
function columns(row, ticked, width, digits) {
  const long = width < 60 ? 0 : width < 90 ? 8 : 12
  const state = row.evicted ? 'evicted' : row.shortened ? 'shortened' : row.pinned ? 'pinned' : ''
  const about = state || (row.tool || !row.calls ? '' : count(row.calls, 'call'))
  const right = long ? long + 11 : 0
  const name = fitted(`${row.tool ? '  ' : ''}${row.title}`, Math.max(8, width - digits - right - 14))
  return {
    name: `${ticked ? '[x]' : '[ ]'} ${String(row.id).padStart(digits)}  ${name} ${size(row.tokens).padStart(5)} `,
    bar: '█'.repeat(Math.min(long, Math.ceil(row.share * long))).padEnd(long),
    about: long ? ` ${fitted(about, 10)}` : '',
  }
}

/** Draw the pane.
 * @param {import('claude-code').EngineInterface} $ @param {import('claude-code').RenderInput<'Pane'>} e
 * @param {import('./view.d.ts').View} view @param {import('./view.d.ts').Actions} act
 * @returns {any} */
export function drawn($, e, view, act) {
  const { Box, Text, Button, Input } = $.ui.resolve(e)
  const width = Math.max(40, e.props.bodyColumns)
  const room = e.props.scroll?.bodyRows ?? 24
  const share = view.window ? ` (${Math.round((100 * view.tokens) / view.window)}%)` : ''
  const ticked = view.rows.filter(row => view.ticked.has(row.id))
  const turns = ticked.filter(row => !row.tool)
  const results = ticked.filter(row => row.tool)
  const waits = view.waits ? 'The agent works: this takes effect when its turn ends.' : ''
  const prices = view.prices.map(each => `${each.key} ${each.what}: ${each.text}`)
  const evicts = view.prices.find(each => each.key === 'e')?.line ?? (results.length ? `evict ${results.map(row => row.id).join(' ')}` : '')
  const operations = view.operations.slice(0, room < TALL ? 2 : 6)
  const digits = Math.max(2, ...view.rows.map(row => String(row.id).length))

  const taken = [view.text, waits, ...prices].reduce((sum, each) => sum + (each ? height(each, width) : 0), 0)
  const others = 4 + operations.length + (ticked.length ? 1 : 0) + (view.asks ? 1 : 0)
  const most = Math.max(SEVERAL, room - taken - others)
  const pages = Math.max(1, Math.ceil(view.rows.length / most))
  const page = view.page % pages
  const shown = view.rows.slice(page * most, (page + 1) * most)
  const below = view.rows.length - page * most - shown.length

  /** @param {string} hotkey @param {string} label @param {() => unknown} onPress */
  const key = (hotkey, label, onPress) => h(Button, { key: `key-${hotkey}`, hotkey, label, plain: true, onPress })
  /** @param {import('./view.d.ts').Row} row */
  const line = row => {
    const { name, bar, about } = columns(row, view.ticked.has(row.id), width - 2, digits)
    return h(
      Box,
      { flexDirection: 'row' },
      h(
        Button,
        { key: `row-${row.id}`, plain: true, onPress: () => act.tick(row.id) },
        h(Text, view.ticked.has(row.id) ? { color: 'warning' } : {}, name),
        h(Text, { color: row.tool ? 'inactive' : 'suggestion' }, bar),
        h(Text, { dimColor: true }, about),
      ),
      !row.tool && row.results
        ? h(Button, { key: `open-${row.id}`, plain: true, label: view.opened.has(row.id) ? '▾' : '▸', onPress: () => act.open(row.id) })
        : null,
    )
  }
  const more = below ? `… ${count(below, 'more row')}` : '… back to the first row'
  const sums = [turns.length ? count(turns.length, 'turn') : '', results.length ? count(results.length, 'result') : '']
  const tokens = ticked.filter(row => !row.tool || !view.ticked.has(row.turn)).reduce((sum, row) => sum + row.tokens, 0)
  return h(
    Box,
    { flexDirection: 'column' },
    h(Text, { bold: true }, `Context · ${size(view.tokens)} of ${size(view.window)}${share}${view.busy ? ` · ${view.busy} …` : ''}`),
    view.text ? view.text.split('\n').map(each => h(Text, {}, safe(each) || ' ')) : null,
    waits ? h(Text, {}, waits) : null,
    view.asks
      ? h(
          Box,
          { flexDirection: 'row', gap: 2 },
          key('y', 'yes', () => act.run('yes')),
          key('n', 'no', () => act.run('no')),
          h(Input, { key: 'answer', placeholder: 'all but 2, only 1 3', submitLabel: 'answer', onSubmit: act.run }),
        )
      : null,
    h(Input, { key: 'filter', label: 'filter ', placeholder: 'title, id, tool', value: view.wanted, submitLabel: 'filter', onSubmit: act.filter }),
    shown.map(line),
    view.rows.length === 0 && !view.busy ? h(Text, { dimColor: true }, view.wanted ? 'No turn matches.' : 'Nothing is sent yet.') : null,
    pages > 1 ? key('m', `${more}; the filter finds titles, ids and tools`, act.more) : null,
    ticked.length ? h(Text, { bold: true }, `${sums.filter(Boolean).join(' and ')} ticked, ${size(tokens)}`) : null,
    prices.map(each => h(Text, { dimColor: true }, safe(each))),
    h(
      Box,
      { flexDirection: 'row', gap: 2, flexWrap: 'wrap' },
      // Always there: a letter that presses nothing goes to the prompt, and takes the keyboard along.
      key('d', 'drop', () => act.run(turns.length ? `drop ${turns.map(row => row.id).join(' ')}` : '')),
      key('e', 'evict', () => act.run(evicts)),
      key('u', 'undo', () => act.run('undo')),
      key('s', view.order === 'size' ? 'newest first' : 'largest first', act.sort),
      view.text ? key('c', 'close the reply', act.close) : null,
      h(Text, { dimColor: true }, 'Enter ticks · Esc leaves'),
    ),
    operations.map(each =>
      h(
        Box,
        { flexDirection: 'row', gap: 1 },
        h(Button, { key: `back-${each.id}`, plain: true, label: `↶ ${each.id}`, onPress: () => act.run(`restore ${each.id}`) }),
        h(Text, { dimColor: true, wrap: 'truncate-end' }, safe(each.text)),
      ),
    ),
  )
}
