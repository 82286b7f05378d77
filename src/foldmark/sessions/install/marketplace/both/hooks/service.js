// The service of Foldmark that keeps the conversation (`foldmark mod`), and what it is told of this session.

/** The instructions of a compaction that installs an edit. */
export const ASKED = 'foldmark: install the edit'

/** @typedef {{ url: string, token: string, socket: string }} Service */

/** @param {unknown} error */
export const said = error => (error instanceof Error ? error.message : String(error))

/** Ask a running service. Failures are answers with an `error`, and with `gone` if nothing answers there.
 * @param {import('claude-code').EngineInterface} $ @param {Service | undefined} service @param {string} name
 * @param {Record<string, unknown>} asked @returns {Promise<any>} */
export async function answered($, service, name, asked) {
  if (!service) return { error: 'the service does not run' }
  try {
    const came = await $.http.fetch(`${service.url}/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-foldmark-token': service.token },
      body: JSON.stringify(asked),
      ...(service.socket && { socketPath: service.socket }),
    })
    return JSON.parse(came.text)
  } catch (error) {
    return { error: `the service does not answer (${said(error)})`, gone: true }
  }
}

/** Return the session as the service needs it: what the client sends, and what the provider counted of it.
 * @param {import('claude-code').EngineInterface} $ */
export async function snapshot($) {
  const [session, folder, model, messages, usage] = await Promise.all([
    $.session.id(),
    $.session.root(),
    $.session.model(),
    $.session.messages({ as: 'api' }),
    $.session.usage({ breakdown: 'summary' }),
  ])
  const { categories = [], apiUsage = null } = usage.context.breakdown ?? {}
  const used = categories.filter(each => each.kind === 'used' && each.name !== 'Messages')
  const besides = used.reduce((sum, each) => sum + each.tokens, 0)
  return { session, folder, model, messages, usage: apiUsage, besides, window: usage.context.window }
}
