/** Clients whose handling of tools is known, by id. */
export const CLIENT_TITLES = {
  'claude-code': 'Claude Code',
  codex: 'Codex',
  cursor: 'Cursor',
  gemini: 'Gemini CLI',
  vscode: 'VS Code',
  opencode: 'opencode',
} as const;
export type KnownClient = keyof typeof CLIENT_TITLES;
