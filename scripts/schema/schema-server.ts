import { z } from 'zod';
import { DEFAULTS, MAX_TIME_MS } from '../../src/config/defaults.ts';

const word = z.union([z.string(), z.number(), z.boolean()]);
const words = z.record(z.string(), word);
const names = z.array(z.string());
const timeMs = z.int().min(1).max(MAX_TIME_MS);

const secretText = z.string().min(1);
const execSchema = z
  .strictObject({
    command: z.string().min(1).describe('The program. Never run by a shell.'),
    args: z.array(word).optional().describe('Its arguments.'),
    env: words.optional().describe('Its environment variables, in addition to the few that local servers get.'),
    timeoutMs: z
      .int()
      .min(100)
      .max(60_000)
      .default(DEFAULTS.execTimeoutMs)
      .optional()
      .describe('How long it may take.'),
  })
  .describe('Program that prints the credential for the server: [credentials.md](credentials.md).');
const authSchema = z.strictObject({
  grant: z
    .enum(['authorization_code', 'client_credentials', 'token_exchange', 'enterprise_managed', 'workload_identity'])
    .optional()
    .describe('`authorization_code`, the default, is a login of a user: `trunkline login`. The others need no user.'),
  per: z
    .enum(['gateway', 'principal'])
    .optional()
    .describe(
      'Whose the credentials are: one for all callers (`gateway`, the default), or each principal has its own (`principal`), and no answer, list or connection of one is ever used for another.',
    ),
  clientId: z.string().min(1).optional().describe('Client registered with the authorization server beforehand.'),
  clientSecret: secretText.optional().describe('Its secret.'),
  privateKey: secretText.optional().describe('Its key for `private_key_jwt`: PKCS 8 PEM, as in `${file:key.pem}`.'),
  CLIENT_ID: z.string().min(1).optional().describe('The same as `clientId` (Cursor).'),
  CLIENT_SECRET: secretText.optional().describe('The same as `clientSecret` (Cursor).'),
  scopes: z.union([names, z.string()]).optional().describe('Replaces the scopes that the server asks for.'),
  issuer: z.string().min(1).optional().describe('The only authorization server that is accepted.'),
  subjectToken: secretText.optional().describe('Token that is exchanged, or assertion of the workload.'),
  subjectTokenFile: z.string().min(1).optional().describe('File with that token, read for each exchange.'),
  idpTokenEndpoint: z
    .string()
    .min(1)
    .optional()
    .describe('Of `enterprise_managed`: token endpoint of the identity provider.'),
  idpClientId: z.string().min(1).optional().describe('Client that the identity provider knows.'),
  idpClientSecret: secretText.optional().describe('Its secret.'),
  exec: execSchema.optional(),
  dpop: z.boolean().optional().describe('Bind tokens to a key of the gateway (RFC 9449).'),
});

/**
 * One server. The first part is what clients' files have, in all their spellings; the second is our own.
 * This file is the source of the published JSON Schema, of docs/config.md and of config-input.d.ts; the gateway uses the
 * generated schema (`shape.ts`), because loading zod takes longer than everything else in this room together.
 */
export const serverSchema = z
  .strictObject({
    type: z
      .string()
      .optional()
      .describe(
        'How the server is reached: `stdio` (also `local`), `docker`, `http` (also `streamable-http`, `streamableHttp`, `streamable_http`, `remote`), `sse` or `json`. If missing: stdio for a command; http for a url, with a fallback to sse.',
      ),
    command: z
      .union([z.string().min(1), z.array(word).min(1)])
      .optional()
      .describe('The program of a local server, or the program and its arguments. Never run by a shell.'),
    cmd: z.string().min(1).optional().describe('The same as `command` (Goose).'),
    args: z.array(word).optional().describe('Arguments of the program.'),
    env: words.optional().describe('Environment variables of the program, in addition to the few that it inherits.'),
    environment: words.optional().describe('The same as `env` (opencode).'),
    envs: words.optional().describe('The same as `env` (Goose).'),
    env_vars: names.optional().describe('Names of variables to inherit (Codex); like a list in `inheritEnv`.'),
    env_keys: names.optional().describe('The same as `env_vars` (Goose).'),
    envFile: z.string().min(1).optional().describe('A file of NAME=value lines; `env` takes precedence (VS Code).'),
    cwd: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Working directory; by default the folder of the configuration file, with `ssh` the remote home folder.',
      ),
    url: z.string().min(1).optional().describe('Address of a remote server, http or https.'),
    httpUrl: z.string().min(1).optional().describe('The same as `url` with type http (Gemini).'),
    serverUrl: z.string().min(1).optional().describe('The same as `url` (Windsurf).'),
    uri: z.string().min(1).optional().describe('The same as `url` (Goose).'),
    headers: words.optional().describe('HTTP headers of every request. The values are treated as secrets.'),
    http_headers: words.optional().describe('The same as `headers` (Codex).'),
    env_http_headers: z
      .record(z.string(), z.string())
      .optional()
      .describe('Header names, each with the environment variable that holds its value (Codex).'),
    bearer_token_env_var: z
      .string()
      .min(1)
      .optional()
      .describe('Name of the variable that holds the bearer token (Codex).'),
    auth: z
      .union([authSchema, z.string(), z.boolean()])
      .optional()
      .describe(
        'How the gateway gets credentials for a server behind a `url`. Without it everything is discovered when the server asks for a login. Text and `false` of client files have no effect.',
      ),
    oauth: z
      .union([z.record(z.string(), z.unknown()), z.boolean()])
      .optional()
      .describe('Of clients: `clientId`, `clientSecret` and `scopes` are taken as in `auth`.'),
    oauth_resource: z.string().optional().describe('Of Codex; has no effect: the server says for what its tokens are.'),
    requiresOAuth: z
      .boolean()
      .optional()
      .describe('Of LibreChat; has no effect: the server says whether it asks for a login.'),
    authProviderType: z.string().optional().describe('Of Gemini; has no effect.'),
    scopes: names.optional().describe('The same as `auth.scopes` (Codex).'),
    transport: z
      .union([z.string(), z.record(z.string(), z.unknown())])
      .optional()
      .describe('The type, or an object with `type`, `url`, `command` and so on (Continue).'),
    enabled: z.boolean().optional().describe('false: the server is neither started nor listed.'),
    disabled: z.boolean().optional().describe('The opposite of `enabled`.'),
    includeTools: names.optional().describe('Only these tools are listed and can be called.'),
    enabled_tools: names.optional().describe('The same as `includeTools` (Codex).'),
    available_tools: names.optional().describe('The same as `includeTools` (Goose); an empty list means all.'),
    excludeTools: names.optional().describe('These tools are not listed and cannot be called.'),
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
      .max(MAX_TIME_MS)
      .optional()
      .describe(
        'Time limit of a start, from the process or connection to the end of the handshake. Default: 60000 for processes, 300000 for commands that download their program first (`npx`, `uvx`, `docker run`, …), 30000 for a `url`.',
      ),
    startup_timeout_sec: z.number().positive().optional().describe('`startupTimeoutMs` in seconds (Codex).'),
    startup_timeout_ms: z.number().positive().optional().describe('The same as `startupTimeoutMs` (Codex).'),
    initTimeout: z.number().positive().optional().describe('The same as `startupTimeoutMs` (LibreChat).'),
    connectionTimeout: z.number().positive().optional().describe('The same as `startupTimeoutMs` (Continue).'),

    description: z.string().max(4096).optional().describe('Text for people. A change does not restart the server.'),
    isolation: z
      .enum(['shared', 'session', 'principal'])
      .optional()
      .describe(
        'Which calls share a connection: all (`shared`), those of a client session, or those of a caller (`principal`). Default: `session` for servers of the stateful revisions, `shared` for 2026-07-28.',
      ),
    replicas: z
      .int()
      .min(1)
      .max(1_000)
      .default(DEFAULTS.replicas)
      .optional()
      .describe(
        'Processes that share the calls of a shared server (`isolation: shared`). A session stays with the process that it used first.',
      ),
    singleton: z
      .boolean()
      .default(DEFAULTS.singleton)
      .optional()
      .describe(
        'The cluster runs this local server once, on one of the nodes that have it; if that node is gone, on another.',
      ),
    forwardHeaders: z
      .record(z.string(), z.string().min(1))
      .optional()
      .describe(
        "Headers of a caller's requests that a server behind a `url` gets with the caller's calls: name in the request, name at the server. Callers with different values share no connection and no cached answer. `Authorization`, `Cookie` and headers of the protocol are never forwarded.",
      ),
    isolationHeader: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,64}$/)
      .optional()
      .describe('Request header whose value separates clients without sessions.'),
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
        'Whether a call that was sent and not answered is sent again: `never`, if the tool declares that it is read-only or idempotent (`hints`; needs `trusted`), or `always`.',
      ),
    trusted: z
      .boolean()
      .default(DEFAULTS.trusted)
      .optional()
      .describe('Trust what the server declares about its tools.'),
    cache: z
      .boolean()
      .default(DEFAULTS.cache)
      .optional()
      .describe(
        'Cache lists and resources of a 2026-07-28 server for the time that it declares, at most a day, and send concurrent equal requests once. false: every request goes to the server.',
      ),
    start: z
      .enum(['eager', 'lazy'])
      .default(DEFAULTS.start)
      .optional()
      .describe('Start with the gateway, or when the server is first needed.'),
    probeMs: z
      .int()
      .min(0)
      .max(MAX_TIME_MS)
      .default(DEFAULTS.probeMs)
      .optional()
      .describe(
        'Time without messages on a connection after which the gateway probes the server, with `ping` or `server/discover`. Answered calls postpone the probe; 0: no probes.',
      ),
    drift: z
      .enum(['off', 'warn', 'hold', 'block'])
      .default(DEFAULTS.drift)
      .optional()
      .describe(
        'What happens to tools, prompts, resource templates and instructions that are new or changed since first use: nothing (`off`), report (`warn`), withhold until approved and keep the approved ones (`hold`), or withhold altogether (`block`). See drift.md.',
      ),
    docker: z
      .strictObject({
        image: z.string().min(1).optional().describe('Image to run; it must exist on the machine.'),
        container: z
          .string()
          .min(1)
          .optional()
          .describe('Running container to attach to, started with `-i`; all sessions share it.'),
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
          .describe(
            '`source:/target[:ro]`; the source is a path, relative to the configuration file, or the name of a volume.',
          ),
        user: z.string().min(1).optional().describe('User in the container.'),
        readOnly: z.boolean().optional().describe('Only volumes are writable.'),
        memory: z
          .union([z.int().min(1), z.string().min(1)])
          .optional()
          .describe('Memory limit, in bytes or as `512m`.'),
        cpus: z.number().positive().optional().describe('CPU limit, such as 0.5.'),
        pids: z.int().min(1).optional().describe('Limit of processes.'),
        labels: z.record(z.string(), z.string()).optional().describe('Labels in addition to those of Trunkline.'),
      })
      .optional()
      .describe(
        'A server in a Docker or Podman container, which runs with open input and an init process and is removed when it ends. `args` are the arguments after the image, `command` replaces the entry point, `env` and `cwd` apply in the container.',
      ),
    ssh: z
      .union([
        z.string().min(1),
        z.strictObject({
          host: z.string().min(1).describe('Host name, alias of the ssh configuration, or address.'),
          user: z.string().min(1).optional().describe('Remote user; by default that of the ssh configuration.'),
          port: z.int().min(1).max(65_535).default(22).optional().describe('Port of the ssh server.'),
          identityFile: z.string().min(1).optional().describe('File of the private key.'),
          knownHostsFile: z.string().min(1).optional().describe("File of known host keys instead of the user's own."),
          hostKeys: z
            .enum(['accept-new', 'yes'])
            .default('accept-new')
            .optional()
            .describe(
              'Keys of unknown hosts are accepted and stored, or (`yes`) refused. A changed key is always refused.',
            ),
          controlMaster: z
            .boolean()
            .default(false)
            .optional()
            .describe('Sessions to one host share one ssh connection, which stays open for a minute after the last.'),
        }),
      ])
      .optional()
      .describe(
        'The host that `command` runs on, as `user@host:port` or as an object. The gateway uses the local ssh program, without prompts; `env` and `cwd` apply to the remote process, and `~/` in `command` and `cwd` is its home folder.',
      ),
    inheritEnv: z
      .union([z.boolean(), names])
      .optional()
      .describe(
        'Additional variables that a local server inherits: true for all except those with TOKEN, SECRET or PASSWORD in their name, or a list of names.',
      ),
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
            'Limit of processes and threads of the user, over all servers, against a server that forks without end. Needs `prlimit` (Linux).',
          ),
      })
      .optional()
      .describe("The local user that runs the server, instead of the gateway's user."),
    limits: z
      .strictObject({
        maxMessageBytes: z
          .int()
          .min(1024)
          .max(1024 * 1024 * 1024)
          .default(DEFAULTS.maxMessageBytes)
          .optional()
          .describe('Largest message of the server.'),
        maxProcesses: z
          .int()
          .min(1)
          .max(10_000)
          .default(DEFAULTS.maxProcessesPerServer)
          .optional()
          .describe('Concurrent processes of this server.'),
        callsPerMinute: z
          .int()
          .min(1)
          .max(1_000_000)
          .optional()
          .describe(
            'How often one caller may call one tool of this server in a minute; further calls end in `RATE_LIMITED` with a `Retry-After`. In a cluster each node counts the calls that come in at it, so that N nodes let through at most N times as many. Default: no limit.',
          ),
      })
      .optional()
      .describe('Limits of this server.'),
    tls: z
      .strictObject({
        ca: z.string().min(1).optional().describe('PEM file of the authorities to trust instead of the default ones.'),
        cert: z.string().min(1).optional().describe('PEM file of the client certificate.'),
        key: z.string().min(1).optional().describe("PEM file of the client certificate's key."),
      })
      .optional()
      .describe('Certificate files for a remote server.'),
  })
  .meta({ id: 'server' });
