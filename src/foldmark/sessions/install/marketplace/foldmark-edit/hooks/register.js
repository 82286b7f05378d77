// Answers the compactions that the plugin `foldmark` starts, and no others: a plugin's own hook is skipped for a
// compaction that it starts itself. Whatever goes wrong, the conversation stays as it is: without an answer the client
// would summarize it.

import { ASKED, answered, snapshot } from './service.js'

/** @param {string} reason */
const STAYS = reason => ({ skip: `Foldmark: ${reason}. The conversation is as it was.` })

/** @param {import('claude-code').On} on */
export function register(on) {
  // Not at the start of a session: what is set is lost at /clear, and no session starts then.
  on('state.set', { plugin: 'foldmark', key: 'service' }, async ($, e, next) => {
    await $.state.set({ plugin: 'foldmark-edit', key: 'ready' }, true)
    return next(e)
  })

  on('session.compact', { trigger: 'plugin' }, async ($, e, next) => {
    if (e.instructions !== ASKED || e.agentId !== undefined) return next(e)
    const { value: service } = await $.state.get({ plugin: 'foldmark', key: 'service' })
    const found = await answered($, service, 'install', { ...(await snapshot($)), rows: e.messages })
    return found.rows ? { messages: found.rows } : STAYS(found.skip ?? found.error ?? 'there is no answer')
  }).catch(($, e, next) => (e.instructions === ASKED ? STAYS('the edit failed') : next(e)))
}
