// What this plugin keeps in a session, for the check of its modules.

declare module 'claude-code' {
  interface PluginState {
    'foldmark-edit': { ready: boolean }
  }
}
