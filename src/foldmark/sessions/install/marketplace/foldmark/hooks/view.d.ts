// What the pane shows, and what it can do. For the check of the modules only.

/** A turn, or a tool result in it (`tool` names the tool). `share` is its size, compared with the largest turn. */
export type Row = {
  id: number
  turn: number
  title: string
  tokens: number
  share: number
  tool: string
  calls: number
  pinned: boolean
  evicted: boolean
  shortened: boolean
  results: number
}

/** `prices` are those of the ticked rows, each with the command that does it. `text` is the reply to the newest command; `asks` is true if it waits for a yes or a no. */
export type View = {
  rows: Row[]
  operations: { id: number; text: string }[]
  tokens: number
  window: number
  page: number
  ticked: Set<number>
  opened: Set<number>
  order: string
  wanted: string
  prices: { key: string; what: string; text: string; line: string }[]
  text: string
  asks: boolean
  busy: string
  waits: boolean
}

export type Actions = {
  tick: (id: number) => void
  open: (id: number) => Promise<unknown>
  sort: () => Promise<unknown>
  more: () => void
  filter: (text: string) => Promise<unknown>
  run: (line: string) => Promise<void>
  close: () => void
}
