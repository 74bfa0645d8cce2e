import type { Agent } from './agent.ts';

const PROMPT = 'use the tools';

const CLAUDE_CODE: Agent = {
  name: 'Claude Code',
  client: 'claude-code',
  program: `@anthropic-ai/claude-code-${process.platform}-${process.arch}/claude`,
  prefix: 'mcp__tl__',
  offers: (tool) => `mcp__tl__${tool.replace(/[^\w-]/g, '_')}`,
  files: () => ({}),
  command: ({ program }) => [program, '-p', PROMPT, '--allowedTools', 'mcp__tl', '--model', 'claude-sonnet-4-5'],
  env: ({ model }) => ({
    ANTHROPIC_BASE_URL: model,
    ANTHROPIC_API_KEY: 'stand-in',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    // The agent then offers the tools themselves and not a tool that searches them.
    ENABLE_TOOL_SEARCH: 'false',
  }),
};

const CODEX_TARGET = { x64: 'x86_64', arm64: 'aarch64' }[process.arch as string];
const CODEX: Agent = {
  name: 'Codex',
  client: 'codex',
  program: `@openai/codex-${process.platform}-${process.arch}/vendor/${CODEX_TARGET}-unknown-linux-musl/bin/codex`,
  prefix: 'mcp__tl/',
  offers: (tool) => `mcp__tl/${tool.replace(/\W/g, '_')}`,
  files: ({ model }) => ({
    '.codex/config.toml': `
model = "stand-in"
model_provider = "stand-in"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.stand-in]
name = "stand-in"
base_url = "${model}/v1"
wire_api = "responses"
env_key = "STAND_IN_KEY"
request_max_retries = 0
stream_max_retries = 0
`,
  }),
  command: ({ program }) => [
    program,
    'exec',
    '--skip-git-repo-check',
    '--dangerously-bypass-approvals-and-sandbox',
    PROMPT,
  ],
  env: () => ({ STAND_IN_KEY: 'stand-in' }),
};

const GEMINI_CLI: Agent = {
  name: 'Gemini CLI',
  client: 'gemini',
  program: '@google/gemini-cli/bundle/gemini.js',
  prefix: 'mcp_tl_',
  offers: (tool) => `mcp_tl_${tool}`,
  files: () => ({
    '.gemini/settings.json': {
      security: { auth: { selectedType: 'gemini-api-key' } },
      privacy: { usageStatisticsEnabled: false },
      telemetry: { enabled: false },
      general: { enableAutoUpdate: false },
    },
  }),
  command: ({ program }) => [process.execPath, program, '-m', 'gemini-2.5-flash', '--yolo', '-p', PROMPT],
  env: ({ model }) => ({
    GEMINI_API_KEY: 'stand-in',
    GOOGLE_GEMINI_BASE_URL: model,
    GEMINI_CLI_TRUST_WORKSPACE: 'true',
  }),
};

const OPENCODE: Agent = {
  name: 'opencode',
  client: 'opencode',
  program: `opencode-${process.platform}-${process.arch}/bin/opencode`,
  prefix: 'tl_',
  offers: (tool) => `tl_${tool.replace(/[^\w-]/g, '_')}`,
  files: ({ model }) => ({
    '.config/opencode/opencode.json': {
      autoupdate: false,
      share: 'disabled',
      permission: 'allow',
      model: 'anthropic/claude-sonnet-4-5',
      provider: { anthropic: { options: { baseURL: `${model}/v1`, apiKey: 'stand-in' } } },
    },
  }),
  command: ({ program }) => [program, 'run', PROMPT],
  env: () => ({
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
  }),
};

export const AGENTS: readonly Agent[] = [CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE];
