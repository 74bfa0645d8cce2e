import { z } from 'zod';
import { DEFAULTS, LONGEST_MS } from '../defaults.ts';

const word = z.union([z.string(), z.number(), z.boolean()]);
const words = z.record(z.string(), word);
const names = z.array(z.string());
const timeMs = z.int().min(1).max(LONGEST_MS);

/**
 * One server. The first part is what clients' files have, in all their spellings; the second is our own.
 * This file is the source of the published JSON Schema, of docs/config.md and of config-input.ts; what runs checks the
 * generated schema (`shape.ts`), because loading zod takes longer than everything else in this room together.
 */
export const serverSchema = z
  .strictObject({
    type: z
      .string()
      .optional()
      .describe(
        'How the server is reached: `stdio` (also `local`), `docker`, `http` (also `streamable-http`, `streamableHttp`, `streamable_http`, `remote`), `sse` or `json`. Inferred where it is missing: a command means stdio, a url means http with a fall-back to sse.',
      ),
    command: z
      .union([z.string().min(1), z.array(word).min(1)])
      .optional()
      .describe('The program of a local server, or the program and its arguments. Never run by a shell.'),
    cmd: z.string().min(1).optional().describe('The same as `command` (Goose).'),
    args: z.array(word).optional().describe('Arguments of the program.'),
    env: words.optional().describe('Environment variables of the program, beside the few it inherits.'),
    environment: words.optional().describe('The same as `env` (opencode).'),
    envs: words.optional().describe('The same as `env` (Goose).'),
    env_vars: names.optional().describe('Names of variables to inherit (Codex); like a list in `inheritEnv`.'),
    env_keys: names.optional().describe('The same as `env_vars` (Goose).'),
    envFile: z.string().min(1).optional().describe('A file of NAME=value lines; `env` wins over it (VS Code).'),
    cwd: z
      .string()
      .min(1)
      .optional()
      .describe("Working directory; the configuration file's folder by default, with `ssh` the home folder there."),
    url: z.string().min(1).optional().describe('Address of a remote server, http or https.'),
    httpUrl: z.string().min(1).optional().describe('The same as `url` with type http (Gemini).'),
    serverUrl: z.string().min(1).optional().describe('The same as `url` (Windsurf).'),
    uri: z.string().min(1).optional().describe('The same as `url` (Goose).'),
    headers: words.optional().describe('HTTP headers sent with every request. Their values are treated as secrets.'),
    http_headers: words.optional().describe('The same as `headers` (Codex).'),
    env_http_headers: z
      .record(z.string(), z.string())
      .optional()
      .describe('Headers whose values are those of the named environment variables (Codex).'),
    bearer_token_env_var: z
      .string()
      .min(1)
      .optional()
      .describe('Name of the variable that holds the bearer token (Codex).'),
    transport: z
      .union([z.string(), z.record(z.string(), z.unknown())])
      .optional()
      .describe('The type, or an object that holds `type`, `url`, `command` and so on (Continue).'),
    enabled: z.boolean().optional().describe('false: the server is known but not started and not offered.'),
    disabled: z.boolean().optional().describe('The opposite of `enabled`.'),
    includeTools: names.optional().describe('Only these tools are offered.'),
    enabled_tools: names.optional().describe('The same as `includeTools` (Codex).'),
    available_tools: names.optional().describe('The same as `includeTools` (Goose); an empty list means all.'),
    excludeTools: names.optional().describe('These tools are not offered.'),
    disabledTools: names.optional().describe('The same as `excludeTools` (Cline, Windsurf).'),
    disabled_tools: names.optional().describe('The same as `excludeTools` (Codex).'),
    timeout: z
      .number()
      .positive()
      .optional()
      .describe(
        "Deadline of a call in that client's unit: milliseconds for Claude Code, Gemini and opencode, seconds for Cline, Roo, Goose and muster. Not in our own files: write `timeoutMs`.",
      ),
    tool_timeout_sec: z.number().positive().optional().describe('Deadline of a call in seconds (Codex).'),
    startupTimeoutMs: z
      .int()
      .min(1)
      .max(LONGEST_MS)
      .optional()
      .describe(
        'How long a start may take, from the process or the connection to the end of the handshake. By default 60000 for what is started here, 300000 for a command that fetches its program first (`npx`, `uvx`, `docker run`, …), and 30000 for a `url`.',
      ),
    startup_timeout_sec: z.number().positive().optional().describe('`startupTimeoutMs` in seconds (Codex).'),
    startup_timeout_ms: z.number().positive().optional().describe('The same as `startupTimeoutMs` (Codex).'),
    initTimeout: z.number().positive().optional().describe('The same as `startupTimeoutMs` (LibreChat).'),
    connectionTimeout: z.number().positive().optional().describe('The same as `startupTimeoutMs` (Continue).'),

    description: z.string().max(4096).optional().describe('For people. Changing it disturbs nothing.'),
    isolation: z
      .enum(['shared', 'session', 'principal'])
      .optional()
      .describe(
        'Whose connection a call may use: one for all, one per client session, one per caller. By default `session` for servers of the stateful revisions and `shared` for those of 2026-07-28.',
      ),
    replicas: z
      .int()
      .min(1)
      .max(1_000)
      .default(DEFAULTS.replicas)
      .optional()
      .describe(
        'Processes of a shared server (`isolation: shared`) among which calls are divided. A session keeps to the one that it has talked to.',
      ),
    singleton: z
      .boolean()
      .default(DEFAULTS.singleton)
      .optional()
      .describe(
        'The whole cluster runs this local server once, on one of the nodes that have it; when that node is gone, on another.',
      ),
    isolationHeader: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,64}$/)
      .optional()
      .describe('Request header whose value isolates clients without sessions from each other.'),
    timeoutMs: timeMs.default(DEFAULTS.timeoutMs).optional().describe('Deadline of a call.'),
    tools: z
      .union([
        names,
        z.record(z.string(), z.strictObject({ timeoutMs: timeMs.optional().describe('Deadline of this tool.') })),
      ])
      .optional()
      .describe('Per tool, under its own name: `timeoutMs`. (A list of names, as in Copilot, means `includeTools`.)'),
    retry: z
      .enum(['never', 'hints', 'always'])
      .default(DEFAULTS.retry)
      .optional()
      .describe(
        'When a call that was sent and not answered may be sent again: never, when the tool says it is read-only or idempotent (needs `trusted`), or always.',
      ),
    trusted: z
      .boolean()
      .default(DEFAULTS.trusted)
      .optional()
      .describe('What the server says of its tools is believed.'),
    cache: z
      .boolean()
      .default(DEFAULTS.cache)
      .optional()
      .describe(
        'Lists and resources of a server of 2026-07-28 are kept for as long as it says, a day at most, and asked for once where several clients want the same. false: every request goes to the server.',
      ),
    start: z
      .enum(['eager', 'lazy'])
      .default(DEFAULTS.start)
      .optional()
      .describe('Start with the gateway, or when the server is first needed.'),
    probeMs: z
      .int()
      .min(0)
      .max(LONGEST_MS)
      .default(DEFAULTS.probeMs)
      .optional()
      .describe(
        'How long nothing may be heard of a connection before it is asked whether the server is still there, with `ping` or `server/discover`. Nothing is asked while calls are answered; 0: never.',
      ),
    drift: z
      .enum(['off', 'warn', 'hold', 'block'])
      .default(DEFAULTS.drift)
      .optional()
      .describe(
        'What is done about tools, prompts, resource templates and instructions that are new or others than at first use: nothing, told (`warn`), kept back until approved while the approved ones go on (`hold`), or refused altogether (`block`). See drift.md.',
      ),
    docker: z
      .strictObject({
        image: z.string().min(1).optional().describe('Image to run; it must be on the machine already.'),
        container: z
          .string()
          .min(1)
          .optional()
          .describe('Running container to attach to instead, started with `-i`; all sessions share it.'),
        engine: z
          .string()
          .min(1)
          .optional()
          .describe(
            "Address of the engine's API, `unix:///path` or `tcp://host:port`; `DOCKER_HOST` or the usual sockets by default.",
          ),
        network: z.string().min(1).optional().describe('Network of the container, such as `none` or `host`.'),
        volumes: names
          .optional()
          .describe('`source:/target[:ro]`; sources as paths of this configuration, or names of volumes.'),
        user: z.string().min(1).optional().describe('User in the container.'),
        readOnly: z.boolean().optional().describe('Nothing outside of volumes can be written.'),
        memory: z
          .union([z.int().min(1), z.string().min(1)])
          .optional()
          .describe('Most memory, in bytes or as `512m`.'),
        cpus: z.number().positive().optional().describe('Most processors, such as 0.5.'),
        pids: z.int().min(1).optional().describe('Most processes.'),
        labels: z.record(z.string(), z.string()).optional().describe('Labels beside our own.'),
      })
      .optional()
      .describe(
        'A server in a container of Docker or Podman, run with its input open, an init process, and removed at its end. `args` are the arguments after the image, `command` replaces its entry point, `env` and `cwd` are those in the container.',
      ),
    ssh: z
      .union([
        z.string().min(1),
        z.strictObject({
          host: z.string().min(1).describe('Name, alias of the ssh configuration, or address.'),
          user: z
            .string()
            .min(1)
            .optional()
            .describe("User there; ssh's own configuration decides where it is missing."),
          port: z.int().min(1).max(65_535).default(22).optional().describe('Port of the ssh server.'),
          identityFile: z.string().min(1).optional().describe('File of the private key.'),
          knownHostsFile: z.string().min(1).optional().describe("File of known host keys instead of the user's own."),
          hostKeys: z
            .enum(['accept-new', 'yes'])
            .default('accept-new')
            .optional()
            .describe('Keys of unknown hosts are taken and kept, or (`yes`) refused. A changed key is always refused.'),
          controlMaster: z
            .boolean()
            .default(false)
            .optional()
            .describe('Connections to one host share one, which stays for a minute after the last.'),
        }),
      ])
      .optional()
      .describe(
        'The host that `command` runs on, as `user@host:port` or as an object. Reached by the ssh program of this machine, without prompts; `env` and `cwd` are those of the remote process.',
      ),
    inheritEnv: z
      .union([z.boolean(), names])
      .optional()
      .describe('Variables a local server inherits beyond the usual few: true for all, or a list of names.'),
    runAs: z
      .strictObject({
        user: z
          .union([z.string().min(1), z.int().min(0).max(4_294_967_294)])
          .describe('Name or number. The gateway has to run as root.'),
        processes: z
          .int()
          .min(1)
          .max(1_000_000)
          .optional()
          .describe(
            'Processes and threads that the user may have, of all servers together, so that a server that forks without end harms nobody else. Needs `prlimit` (Linux).',
          ),
      })
      .optional()
      .describe("The user of this machine whose process a local server is, instead of the gateway's own."),
    limits: z
      .strictObject({
        maxMessageBytes: z
          .int()
          .min(1024)
          .max(1024 * 1024 * 1024)
          .default(DEFAULTS.maxMessageBytes)
          .optional()
          .describe('Longest message taken from the server.'),
        maxProcesses: z
          .int()
          .min(1)
          .max(10_000)
          .default(DEFAULTS.maxProcessesPerServer)
          .optional()
          .describe('Processes of this server at once.'),
      })
      .optional()
      .describe('Limits of this server.'),
    tls: z
      .strictObject({
        ca: z.string().min(1).optional().describe('PEM file of the authorities to trust instead of the usual ones.'),
        cert: z.string().min(1).optional().describe('PEM file of the client certificate.'),
        key: z.string().min(1).optional().describe("PEM file of the client certificate's key."),
      })
      .optional()
      .describe('Certificates for a remote server, as files.'),
  })
  .meta({ id: 'server' });
