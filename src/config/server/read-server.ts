import type { ServerInput } from '../../../schema/config-input.d.ts';
import { separationOf } from '../../model/caller-partition.ts';
import { secretsOf } from '../../model/sanitized-definition.ts';
import { isOwnProcess, type Origin, type Server, type ToolFilter } from '../../model/server.ts';
import { CLIENT_KEYS } from '../client.ts';
import { MAX_TIME_MS } from '../defaults.ts';
import { Expander, type ExpanderOptions } from '../document/expand.ts';
import { child, type Node } from '../document/node.ts';
import { checkShape, type WithDefaults, withDefaults } from '../document/shape.ts';
import type { RawDefinition } from '../files/containers.ts';
import { serverJsonSchema } from '../schema-json.ts';
import { FieldReader, type ReadingContext } from './field-reader.ts';
import { flattened } from './flattened.ts';
import { connectionDigest } from './plain-server.ts';
import { readDocker } from './read-docker.ts';
import { readHttp, URL_KEYS } from './read-http.ts';
import { readStdio } from './read-stdio.ts';
import { serverType } from './server-type.ts';
import { keepDefinition } from './written-values.ts';

/** `inputs`: the known answers. */
type DocumentContext = Omit<ReadingContext, 'expander'> &
  Pick<ExpanderOptions, 'env' | 'inputs' | 'declared' | 'stored' | 'keepsReferences'>;

/** The context for all definitions of a document, with its own expander. */
export function serverContext(context: DocumentContext): ReadingContext {
  const { env, inputs, declared, stored, keepsReferences, ...document } = context;
  const { client, folder: workspaceFolder } = document;
  const given = { env, inputs, declared, stored, keepsReferences };
  const expander = new Expander({ ...document, ...given, client: client.id, workspaceFolder });
  return { ...document, expander };
}

/** The fix for a definition that is a text, as people write it in a terminal. */
function mapFix(node: Node): string | undefined {
  if (node.kind !== 'string') return undefined;
  if (/^[\w-]+:[^\s/]/.test(node.text)) return 'put a blank behind the colon';
  return /^https?:\/\//i.test(node.text) ? 'write { "url": "…" }' : 'write { "command": "…", "args": ["…"] }';
}

/**
 * Reads one definition as a Server of the model under its final name. Returns null after a problem, and for an entry that is no
 * server (a client's built-in). The problems of a disabled server are warnings.
 */
export function readServer(definition: RawDefinition, name: string, context: ReadingContext): Server | null {
  const { source, problems, strict } = context;
  const { path, node } = definition;
  if (strict && name !== definition.name) {
    const message = `${JSON.stringify(definition.name)} cannot be the name of a server`;
    problems.error('TL1402', source, definition.nameSpan, message, `write ${JSON.stringify(name)}`);
  }
  if (node.kind !== 'object') {
    problems.error('TL1302', source, node.span, `${path} must be a map of keys`, mapFix(node));
    return null;
  }
  const fields = new FieldReader(context, flattened(node), path);
  const values = withDefaults(fields.node, serverJsonSchema()) as WithDefaults<ServerInput>;
  const enabled = readEnabled(fields, values);
  problems.lenient = !enabled;
  try {
    const shaped = checkShape(fields.node, serverJsonSchema(), path, {
      source,
      problems,
      strict,
      ignored: CLIENT_KEYS,
    });
    const type = serverType(fields, !shaped);
    if (type?.type === 'none') {
      problems.warn('TL1414', source, definition.nameSpan, `${path} ${type.why}, and is left out`);
      return null;
    }
    const transport =
      type === null
        ? null
        : type.type === 'stdio'
          ? readStdio(fields, values)
          : type.type === 'docker'
            ? readDocker(fields, values.docker)
            : readHttp(fields, type.type, type.sseFallback);
    const timeoutMs = readTimeout(fields, values.timeoutMs);
    const startupTimeoutMs = readStartupTimeout(fields, values);
    checkRetry(fields, values);
    if (transport === null) return null;
    const { description = null, isolationHeader = null, retry, trusted, cache, start, probeMs, drift, limits } = values;
    for (const secret of secretsOf({ transport, description })) context.secrets.add(secret);
    const callerSeparation = separationOf(transport);
    const isolation = readIsolation(fields, values, transport);
    const { maxMessageBytes } = limits;
    const origin: Origin = { file: source.file, ...source.position(definition.nameSpan.start) };
    keepDefinition(origin, { node, source, secrets: context.secrets });
    return {
      name,
      transport,
      description,
      isolation,
      replicas: readReplicas(fields, { transport, isolation, limits }, values.replicas),
      singleton: values.singleton,
      isolationHeader,
      ...(callerSeparation === undefined ? {} : { callerSeparation }),
      timeoutMs,
      toolTimeoutMs: toolTimeouts(values.tools),
      ...(startupTimeoutMs === undefined ? {} : { startupTimeoutMs }),
      retry,
      trusted,
      cache,
      start,
      probeMs,
      drift,
      enabled,
      tools: readFilter(fields),
      limits,
      origin,
      connectionDigest: connectionDigest({ transport, isolation, isolationHeader, maxMessageBytes }),
    };
  } finally {
    problems.lenient = false;
  }
}

/** Whether the definition describes a remote server. */
export function hasUrl({ node }: RawDefinition): boolean {
  return node.kind === 'object' && URL_KEYS.some((key) => child(flattened(node), key) !== undefined);
}

function readEnabled(fields: FieldReader, { enabled, disabled }: Partial<WithDefaults<ServerInput>>): boolean {
  if (enabled !== undefined && enabled === disabled) {
    const both = `${fields.path} has enabled and disabled both ${enabled}`;
    fields.error('TL1306', child(fields.node, 'disabled') ?? null, both);
  }
  return enabled ?? !(disabled ?? false);
}

export function readTimeout(fields: FieldReader, timeoutMs: number): number {
  const { client, strict } = fields.context;
  const found = fields.first('timeout', 'tool_timeout_sec');
  if (found === null || found.node.kind !== 'number') return timeoutMs;
  const { key, node } = found;
  const value = node.value as number;
  if (fields.has('timeoutMs')) {
    fields.error('TL1306', node, `${fields.path} has both timeoutMs and ${key}`);
    return timeoutMs;
  }
  if (strict && key === 'timeout') {
    fields.error(
      'TL1301',
      node,
      `${fields.path}.timeout has no unit`,
      `write "timeoutMs": ${value}, or ${value * 1000} if it means seconds`,
    );
    return timeoutMs;
  }
  const unit = key === 'tool_timeout_sec' ? 1000 : (client.timeoutUnitMs ?? (value < 1000 ? 1000 : 1));
  if (client.timeoutUnitMs === null && key === 'timeout') {
    const message = `${fields.path}.timeout was read as ${unit === 1 ? 'milliseconds' : 'seconds'}`;
    fields.warn('TL1308', node, message, `write "timeoutMs": ${value * unit}`);
  }
  return inMs(fields, found, unit) ?? timeoutMs;
}

function readStartupTimeout(
  fields: FieldReader,
  { startupTimeoutMs: own }: Partial<WithDefaults<ServerInput>>,
): number | undefined {
  const found = fields.first('startup_timeout_sec', 'startup_timeout_ms', 'initTimeout', 'connectionTimeout');
  if (found === null || found.node.kind !== 'number') return own;
  if (own === undefined) return inMs(fields, found, found.key === 'startup_timeout_sec' ? 1000 : 1);
  fields.error('TL1306', found.node, `${fields.path} has both startupTimeoutMs and ${found.key}`);
  return own;
}

/** Reports a time above the limit and returns undefined for it. */
function inMs(fields: FieldReader, { key, node }: { readonly key: string; readonly node: Node }, unit: number) {
  const ms = node.kind === 'number' ? Math.max(1, Math.round((node.value as number) * unit)) : 1;
  if (ms <= MAX_TIME_MS) return ms;
  fields.error('TL1303', node, `${fields.path}.${key} is longer than a week`);
  return undefined;
}

/** All clients of a running container share its one standard input and output. */
function readIsolation(
  fields: FieldReader,
  { isolation }: Pick<ServerInput, 'isolation'>,
  transport: Server['transport'],
): Server['isolation'] {
  const written = isolation ?? null;
  if (written === 'shared' && separationOf(transport) !== undefined) {
    const message = `${fields.path} tells its callers apart, by "auth.per" or "forwardHeaders", so they cannot share a connection`;
    fields.error('TL1306', child(fields.node, 'isolation') ?? null, message, 'leave out "isolation"');
  }
  if (transport.type !== 'docker' || !('container' in transport.target)) return written;
  if (written !== null && written !== 'shared') {
    const message = `${fields.path} is attached to a container, whose streams all sessions share`;
    fields.error('TL1306', child(fields.node, 'isolation') ?? null, message, 'leave out "isolation", or run an image');
  }
  return 'shared';
}

function checkRetry(fields: FieldReader, { retry, trusted }: Pick<ServerInput, 'retry' | 'trusted'>): void {
  if (retry !== 'hints' || trusted === true) return;
  const message = `${fields.path}: retry "hints" believes what the server says of its tools, so the server must be trusted`;
  fields.error('TL1306', child(fields.node, 'retry') ?? null, message, 'add "trusted": true, or write retry "never"');
}

function toolTimeouts(tools: ServerInput['tools'] = []): ReadonlyMap<string, number> {
  const settings = Array.isArray(tools)
    ? []
    : Object.entries(tools as Readonly<Record<string, { timeoutMs?: number }>>);
  return new Map(settings.flatMap(([name, { timeoutMs }]) => (timeoutMs === undefined ? [] : [[name, timeoutMs]])));
}

function readFilter(fields: FieldReader): ToolFilter {
  const lists = [fields.names('includeTools'), fields.names('enabled_tools'), fields.names('tools')];
  const goose = fields.names('available_tools');
  const include = [...lists, goose?.length === 0 ? null : goose].filter((list) => list !== null && !list.includes('*'));
  const excluded = ['excludeTools', 'disabledTools', 'disabled_tools'].flatMap((key) => fields.names(key) ?? []);
  return {
    include: include.length === 0 ? null : new Set(include.flatMap((list) => list ?? [])),
    exclude: new Set(excluded),
  };
}

/** Number of processes that share the calls of a server: one, unless the server is shared and runs processes. */
function readReplicas(
  fields: FieldReader,
  { transport, isolation, limits }: Pick<Server, 'transport' | 'isolation' | 'limits'>,
  replicas: number,
): number {
  if (replicas === 1) return 1;
  const { path } = fields;
  const error = (message: string, hint: string) =>
    fields.error('TL1306', child(fields.node, 'replicas') ?? null, message, hint);
  if (!isOwnProcess({ transport })) {
    error(`${path} is no process that could be run ${replicas} times`, 'leave out "replicas"');
  } else if (isolation !== 'shared') {
    error(
      `${path} has ${replicas} replicas, among which only calls to a shared server are divided`,
      'add "isolation": "shared", or leave out "replicas"',
    );
  } else if (replicas > limits.maxProcesses) {
    const { maxProcesses } = limits;
    error(`${path} has ${replicas} replicas and at most ${maxProcesses} processes`, 'raise "limits.maxProcesses"');
  }
  return replicas;
}
