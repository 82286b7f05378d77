// Runs the plugins' modules without Claude Code: what they hook, call and draw. The service behind them is a function.

import { pathToFileURL } from 'node:url'

let loads = 0

globalThis.h = (type, props, ...children) => ({ type, props: props ?? {}, children: children.flat(Infinity).filter(each => each !== null) })

/** A client with plugins of a folder. `service(name, asked)` answers what they ask; if it throws, nothing answers. */
export class Client {
  constructor(service) {
    Object.assign(this, { service, asked: [], started: 0, token: 'first', compactions: [], summarized: 0, completed: [], redrawn: 0 })
    Object.assign(this, { hooks: [], timers: [], now: 0, state: new Map(), commands: [], opened: [], width: 96, rows: 30, policy: {} })
    this.program = () => ({ exitCode: 0, stdout: JSON.stringify({ url: 'http://127.0.0.1:1', token: this.token, process: 1, socket: '/run/fm.sock' }), stderr: '' })
    this.model = () => ({ isAnswered: true, text: '[2]', usage: { output_tokens: 20 } })
    this.ran = []
    this.messages = []
    this.failing = new Set()
    this.compacting = 0
    this.holds = undefined
  }

  async load(folder, ...plugins) {
    for (const plugin of plugins) {
      const path = `${folder}/${plugin}/hooks/register.js`
      const { register } = await import(`${pathToFileURL(path)}?load=${(loads += 1)}`)
      register((...given) => this.#hooked(plugin, ...given))
    }
    await this.raise('session.start', {})
    return this
  }

  #hooked(plugin, event, ...rest) {
    const hook = { plugin, event, matcher: rest.length > 1 ? rest[0] : {}, run: rest.at(-1) }
    this.hooks.push(hook)
    return { catch: handler => (hook.handler = handler) }
  }

  /** Raise an event, and return what the hooks answer; `bottom` if none does. A plugin's hook is skipped for `by`. */
  async raise(event, e, bottom = {}, by = '') {
    const fits = ({ matcher }) => Object.entries(matcher).every(([name, value]) => e[name] === value)
    const hooks = this.hooks.filter(hook => hook.event === event && hook.plugin !== by && fits(hook))
    const next = at => async passed => {
      const hook = hooks[at]
      if (!hook) return bottom
      try {
        return await hook.run(this.noun(hook.plugin), passed, next(at + 1))
      } catch (error) {
        if (!hook.handler) throw error
        return hook.handler(this.noun(hook.plugin), passed, next(at + 1))
      }
    }
    return next(0)(e)
  }

  /** Return `$` for a plugin. */
  noun(plugin) {
    const failing = name => {
      if (this.failing.has(name)) throw new Error(`${name} failed`)
    }
    return {
      command: { register: async about => this.commands.push(about) },
      settings: { read: async () => this.policy },
      state: {
        get: async ({ plugin: of, key }) => ({ value: this.state.get(`${of}.${key}`) }),
        set: async ({ plugin: of, key }, value) => {
          this.state.set(`${of}.${key}`, value)
          await this.raise('state.set', { plugin: of, key, value }, {}, plugin)
        },
      },
      session: {
        id: async () => 'session-1',
        root: async () => '/work',
        model: async () => 'claude-sonnet-4-6',
        messages: async () => (failing('messages'), this.messages),
        usage: async () => ({ context: { window: 200000, breakdown: { categories: [{ kind: 'used', name: 'System', tokens: 7 }, { kind: 'used', name: 'Messages', tokens: 90 }, { kind: 'free', name: 'Free', tokens: 500 }], apiUsage: null } } }),
        compact: async ({ instructions }) => {
          for (const name of this.failing) if (name.startsWith('compact')) failing(name)
          this.compacting += 1
          await this.holds
          const answer = await this.raise('session.compact', { trigger: 'plugin', instructions, messages: this.messages }, null, plugin)
          if (!answer) this.summarized += 1
          this.compactions.push(answer)
          this.compacting -= 1
          return answer ?? { messages: [] }
        },
      },
      http: {
        fetch: async (url, { headers, body }) => {
          const name = url.split('/').at(-1)
          this.asked.push([name, JSON.parse(body), headers['x-foldmark-token']])
          const found = await this.service(name, JSON.parse(body), headers['x-foldmark-token'])
          return { text: typeof found === 'string' ? found : JSON.stringify(found) }
        },
      },
      process: {
        run: async words => {
          this.ran.push(words)
          this.started += words[1] === 'mod' ? 1 : 0
          return this.program(words)
        },
      },
      clock: {
        after: (ms, run) => this.timers.push({ at: this.now + ms, run }),
        every: (ms, run) => this.timers.push({ at: this.now + ms, run, ms }),
      },
      model: { complete: async asked => (this.completed.push(asked), this.model(asked)) },
      ui: {
        open: async about => this.opened.push(about),
        invalidate: () => (this.redrawn += 1),
        resolve: () => ({ Box: 'Box', Text: 'Text', Button: 'Button', Input: 'Input' }),
      },
    }
  }

  /** Let milliseconds pass. */
  async pass(ms) {
    const until = this.now + ms
    for (;;) {
      const due = this.timers.filter(each => each.at <= until).sort((one, other) => one.at - other.at)[0]
      if (!due) break
      this.now = Math.max(this.now, due.at)
      if (due.ms) due.at += due.ms
      else this.timers.splice(this.timers.indexOf(due), 1)
      await due.run()
    }
    this.now = until
  }

  /** Type `/fm LINE`, and return what the command answers. */
  async fm(line = '') {
    const answer = await this.raise('command.run', { command: 'fm', args: line })
    await this.pass(0)
    return answer
  }

  /** Return all elements of the pane. */
  async elements() {
    const props = { bodyColumns: this.width, scroll: { offset: 0, bodyRows: this.rows } }
    const root = await this.raise('ui.render', { component: 'Pane', requestId: 'foldmark', props })
    const all = element => [element, ...element.children.filter(each => each.type).flatMap(all)]
    return all(root)
  }

  /** Return the lines of the pane: each Text and Button, and each Box in a row, is one. */
  async lines() {
    const text = each => (each.type ? (each.props.label ?? each.children.map(text).join(each.props.flexDirection === 'row' ? ' ' : '')) : each)
    const [root] = await this.elements()
    return root.children.map(text)
  }

  async find(key) {
    return (await this.elements()).find(each => each.props.key === key || (each.type === 'Button' && each.props.hotkey === key))
  }

  /** Press a button, named by its key or its hotkey. */
  async press(key) {
    const found = await this.find(key)
    if (!found) throw new Error(`no button ${key} in:\n${(await this.lines()).join('\n')}`)
    await found.props.onPress()
  }

  async type(key, text) {
    await (await this.find(key)).props.onSubmit(text)
  }

  /** Return the lines that were executed. */
  get executed() {
    return this.asked.filter(([name]) => name === 'do').map(([, asked]) => asked.line)
  }
}
