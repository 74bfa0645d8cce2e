import { z } from 'zod';
import { DEFAULTS, LONGEST_MS } from '../defaults.ts';
import { serverSchema } from './schema-server.ts';

const port = z.int().min(0).max(65_535);
const timeMs = z.int().min(1).max(LONGEST_MS);
const hosts = z.array(z.string().min(1).max(255));

const servers = z.record(z.string(), serverSchema);

const agentSchema = z.strictObject({
  key: z.string().min(1).describe('What the caller shows as bearer token: at least 16 characters, `${…}` allowed.'),
  servers: z.array(z.string()).optional().describe('The servers it may see and reach; all where this is missing.'),
});

/** Keys of our own at the top of a file, beside the servers. */
const settingsShape = {
  agents: z
    .record(z.string(), agentSchema)
    .optional()
    .describe('Callers with a key of their own. Without agents, everyone who can connect may use everything.'),
  unknownCallers: z
    .enum(['refuse', 'allow'])
    .default(DEFAULTS.unknownCallers)
    .optional()
    .describe('What a caller without a known key gets when agents are configured: 401, or everything.'),
  listen: z
    .strictObject({
      host: z.string().min(1).default(DEFAULTS.host).optional().describe('Address to listen on for MCP.'),
      port: port.default(DEFAULTS.port).optional().describe('Port to listen on; 0 for any free one.'),
      trustedProxies: hosts.optional().describe('Addresses or CIDR blocks whose X-Forwarded-* headers are believed.'),
      allowedHosts: hosts.optional().describe('Host names accepted beside loopback and the bound address.'),
      allowedOrigins: hosts
        .optional()
        .describe('Browser origins accepted beside loopback; only these get CORS headers.'),
      insecure: z
        .boolean()
        .default(false)
        .optional()
        .describe('Accept listening beyond this machine without agents and without TLS.'),
      maxBodyBytes: z
        .int()
        .min(1024)
        .max(1024 * 1024 * 1024)
        .default(DEFAULTS.maxBodyBytes)
        .optional()
        .describe(
          'Longest request body taken from a client. Bodies in receipt share an eighth of the heap limit, at least 32 MiB and twice this; one more gets 503.',
        ),
      maxConnections: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULTS.maxConnections)
        .optional()
        .describe('Connections of clients at once.'),
    })
    .optional()
    .describe('The MCP listener.'),
  tls: z
    .strictObject({
      cert: z.string().min(1).describe('PEM file of the certificate chain.'),
      key: z.string().min(1).describe('PEM file of its key.'),
    })
    .optional()
    .describe('HTTPS for the MCP listener. The files are read again when they change.'),
  control: z
    .strictObject({
      host: z.string().min(1).default(DEFAULTS.host).optional().describe('Address of the control listener.'),
      port: port.default(DEFAULTS.controlPort).optional().describe('Port of the control listener; 0 for any free one.'),
      commands: z
        .array(z.string().min(1).max(4096))
        .max(1000)
        .optional()
        .describe(
          'Programs that servers added with the control token alone may run, as they write them (`npx`, or an absolute path). None by default: running programs takes the exec token too.',
        ),
    })
    .optional()
    .describe('The control listener: status, metrics, commands.'),
  sessions: z
    .strictObject({
      idleMs: timeMs
        .default(DEFAULTS.sessionIdleMs)
        .optional()
        .describe('A client session without requests and streams for this long is ended.'),
      max: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULTS.maxSessions)
        .optional()
        .describe('Client sessions at once, and as many listening streams of clients without one.'),
      maxPerPrincipal: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULTS.maxSessionsPerPrincipal)
        .optional()
        .describe('The same of one caller.'),
    })
    .optional()
    .describe('Client sessions of the stateful revisions.'),
  firstListWaitMs: z
    .int()
    .min(0)
    .max(60_000)
    .default(DEFAULTS.firstListWaitMs)
    .optional()
    .describe(
      'How long a list waits for servers that were never listed before and are starting; for one at whose address nobody is, half a second of it.',
    ),
  maxTimeoutMs: timeMs
    .default(DEFAULTS.maxTimeoutMs)
    .optional()
    .describe(
      'Upper bound of any call, whatever its progress says. A longer `timeoutMs` of a server or tool raises it.',
    ),
  maxProcesses: z
    .int()
    .min(1)
    .max(100_000)
    .default(DEFAULTS.maxProcesses)
    .optional()
    .describe('Processes of local servers at once, all together.'),
  pool: z
    .strictObject({
      idleTimeoutMs: timeMs
        .default(DEFAULTS.pool.idleTimeoutMs)
        .optional()
        .describe('A connection of one session or caller without requests for this long is closed.'),
      sleepAfterMs: z
        .int()
        .min(0)
        .max(LONGEST_MS)
        .default(DEFAULTS.pool.sleepAfterMs)
        .optional()
        .describe(
          'At the limit of processes the longest idle one is ended to make room, and its session is told. One that had a request within this time is kept, unless its client is gone; 0: none is kept for that.',
        ),
      sweepMs: timeMs
        .min(1_000)
        .default(DEFAULTS.pool.sweepMs)
        .optional()
        .describe('How often such connections are looked for.'),
      maxErrors: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULTS.pool.maxErrors)
        .optional()
        .describe('Failed requests in a row after which a connection is replaced.'),
    })
    .optional()
    .describe('Connections to servers that are kept open.'),
  data: z
    .strictObject({
      dir: z
        .string()
        .min(1)
        .optional()
        .describe('Folder of sessions and known catalogues; by default in the XDG state folder.'),
    })
    .optional()
    .describe('What is kept on disk.'),
  cluster: z
    .strictObject({
      nats: z
        .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
        .optional()
        .describe('Servers of NATS: `nats://host:4222` or `tls://host:4222`, one or several of the same cluster.'),
      secret: z
        .string()
        .min(1)
        .optional()
        .describe(
          'What all nodes know and nobody else: at least 32 bytes, best as `${file:…}` or `${…}`. By default `TRUNKLINE_CLUSTER_SECRET`, or the file named by `TRUNKLINE_CLUSTER_SECRET_FILE`.',
        ),
      previousSecret: z
        .string()
        .min(1)
        .optional()
        .describe(
          'Another secret that is believed while nodes change from one to the other: first the next one, then the one before.',
        ),
      node: z
        .string()
        .min(1)
        .max(63)
        .optional()
        .describe('Name of this node for people; by default that of the machine.'),
      user: z.string().min(1).optional().describe('User at NATS.'),
      password: z.string().min(1).optional().describe('The password of that user.'),
      token: z.string().min(1).optional().describe('Token at NATS, where it uses one for all.'),
      nkey: z.string().min(1).optional().describe('Seed of an nkey (`SU…`) that NATS knows.'),
      credentials: z.string().min(1).optional().describe('A `.creds` file: a JWT with the seed of its key.'),
      tls: z
        .strictObject({
          ca: z.string().min(1).optional().describe('PEM file of the authorities that NATS’ certificate may be of.'),
          cert: z.string().min(1).optional().describe('PEM file of a certificate to show to NATS.'),
          key: z.string().min(1).optional().describe('PEM file of its key.'),
        })
        .optional()
        .describe('TLS towards NATS; with `tls://` also without this.'),
      onBusLoss: z
        .enum(['fence', 'serve'])
        .default('fence')
        .optional()
        .describe(
          'What a node does with what only one may own, while it does not reach NATS: refuse calls to it, or go on with what it owns already, at the risk that another node does the same.',
        ),
      store: z
        .string()
        .min(1)
        .optional()
        .describe(
          'Where the nodes keep what is decided at run time (servers added, suspensions, pins): `postgresql://user:password@host:5432/database`. Without it such changes of servers are refused.',
        ),
      publicSubjects: z
        .boolean()
        .default(false)
        .optional()
        .describe('Serve `mcp.{name}.execute` and `mcp.{name}.list-tools` to other programs on NATS.'),
      publicPrincipal: z
        .string()
        .min(1)
        .optional()
        .describe('The agent that programs are there who show no key; without it they are refused.'),
    })
    .optional()
    .describe('Several nodes as one gateway, over NATS (docs/cluster.md).'),
  log: z
    .strictObject({
      level: z
        .enum(['debug', 'info', 'warn', 'error'])
        .default(DEFAULTS.logLevel)
        .optional()
        .describe('Least severe level to log.'),
    })
    .optional()
    .describe('Logging.'),
};

/** A value that a client asks its user for; here the terminal or `TRUNKLINE_INPUT_<ID>`. */
const inputSchema = z.looseObject({
  type: z.string().optional().describe('`promptString`; others are not asked.'),
  id: z.string().min(1).describe('The name that `${input:…}` refers to.'),
  description: z.string().optional().describe('What the user is asked.'),
  default: z.string().optional().describe('What an empty answer means.'),
  password: z.boolean().optional().describe('The answer is not shown.'),
});

/** A whole file as the published JSON Schema describes it: our own keys, and the containers of clients' files. */
export const configSchema = z.strictObject({
  $schema: z.string().optional().describe('Address of this schema, for editors.'),
  mcpServers: servers
    .optional()
    .describe('The servers by name, as in the files of Claude, Cursor, Windsurf, Gemini and others.'),
  servers: servers.optional().describe('The same as `mcpServers` (VS Code).'),
  mcp_servers: servers.optional().describe('The same as `mcpServers` (Codex).'),
  context_servers: servers.optional().describe('The same as `mcpServers` (Zed).'),
  inputs: z.array(inputSchema).optional().describe('Values for `${input:…}` (VS Code).'),
  ...settingsShape,
});
