// The pane: what fills the context, and what can be done with what is ticked.

const K = 1000
const size = tokens => (tokens < K ? `${tokens}` : tokens < 10 * K ? `${(tokens / K).toFixed(1)}K` : `${Math.round(tokens / K)}K`)
const fitted = (text, width) => (text.length <= width ? text.padEnd(width) : `${text.slice(0, Math.max(0, width - 1))}…`)
const filled = share => '█'.repeat(Math.max(share > 0 ? 1 : 0, Math.round(share * 12))).padEnd(12)

/**
 * Draw the pane.
 * @param {import('claude-code').EngineInterface} $
 * @param {any} e
 * @param {any} view
 * @param {Record<string, (value?: any) => unknown>} act
 */
export function drawn($, e, view, act) {
  const { Box, Text, Button, Input } = $.ui.resolve(e)
  const width = Math.max(40, e.props.bodyColumns)
  const share = view.window ? Math.round((100 * view.tokens) / view.window) : 0
  const ids = [...view.ticked].sort((one, other) => one - other)
  const turns = view.rows.filter(row => !row.tool && view.ticked.has(row.id)).map(row => row.id)
  const results = view.rows.filter(row => row.tool && view.ticked.has(row.id)).map(row => row.id)
  const line = row => {
    const tick = view.ticked.has(row.id) ? '[x]' : '[ ]'
    const calls = row.tool ? row.tool : row.calls ? `${row.calls} ${row.calls === 1 ? 'call' : 'calls'}` : ''
    const name = `${row.tool ? '   ' : ''}${row.title}${row.evicted ? ' (evicted)' : ''}`
    const right = `${size(row.tokens).padStart(6)}  ${filled(row.share)} ${fitted(calls, 10)}`
    return `${tick} ${String(row.id).padStart(5)}  ${fitted(name, width - right.length - 13)} ${right}`
  }
  const key = (hotkey, label, onPress) => h(Button, { key: `key-${hotkey}`, hotkey, label, onPress })
  const several = ids.length === 1 ? '1 ticked' : `${ids.length} ticked`
  return h(
    Box,
    { flexDirection: 'column' },
    h(Text, { bold: true }, `Context · ${size(view.tokens)} of ${size(view.window)} (${share}%)${view.busy ? ` · ${view.busy} …` : ''}`),
    h(Input, { key: 'filter', label: 'filter ', placeholder: 'title, id, tool', value: view.wanted, submitLabel: 'filter', onSubmit: act.filter }),
    view.rows.map(row =>
      h(
        Box,
        { flexDirection: 'row' },
        h(Button, { key: `row-${row.id}`, plain: true, onPress: () => act.tick(row.id) }, line(row)),
        !row.tool && row.results
          ? h(Button, { key: `open-${row.id}`, plain: true, label: view.opened.has(row.id) ? '▾' : '▸', onPress: () => act.open(row.id) })
          : null,
      ),
    ),
    view.rows.length === 0 && !view.busy ? h(Text, { dimColor: true }, 'Nothing is sent yet.') : null,
    ids.length ? h(Text, { bold: true }, several) : null,
    view.prices.map(each => h(Text, {}, `${each.key} ${each.what}: ${each.text}`)),
    h(
      Box,
      { flexDirection: 'row', gap: 1, flexWrap: 'wrap' },
      turns.length ? key('d', 'drop', () => act.run(`drop ${turns.join(' ')}`)) : null,
      results.length ? key('e', 'evict', () => act.run(`evict ${results.join(' ')}`)) : null,
      key('u', 'undo', () => act.run('undo')),
      key('s', view.order === 'size' ? 'newest first' : 'largest first', act.sort),
    ),
    view.text ? view.text.split('\n').map(each => h(Text, {}, each || ' ')) : null,
    view.asks
      ? h(
          Box,
          { flexDirection: 'row', gap: 1 },
          key('y', 'yes', () => act.run('yes')),
          key('n', 'no', () => act.run('no')),
          h(Input, { key: 'answer', placeholder: 'all but 2, only 1 3', submitLabel: 'answer', onSubmit: act.run }),
        )
      : null,
    view.operations.map(each =>
      h(
        Box,
        { flexDirection: 'row', gap: 1 },
        h(Button, { key: `back-${each.id}`, plain: true, label: `↶ ${each.id}`, onPress: () => act.run(`restore ${each.id}`) }),
        h(Text, { dimColor: true }, fitted(each.text, width - 10)),
      ),
    ),
  )
}
