import type { CallerSeparation, Server, TransportSpec } from '../../model/server.ts';

/** What other nodes need of a definition to serve callers, without how to reach the server. */
export interface ServerText extends Omit<Server, 'transport' | 'toolTimeoutMs' | 'tools' | 'callerSeparation'> {
  readonly transport: TransportSpec['type'];
  readonly process: boolean;
  /** `callerSeparation` of the definition. */
  readonly apart?: CallerSeparation;
  readonly toolTimeoutMs: readonly (readonly [string, number])[];
  readonly tools: { readonly include: readonly string[] | null; readonly exclude: readonly string[] };
}

export function serverText(server: Server, process: boolean): ServerText {
  const { transport, toolTimeoutMs, tools, callerSeparation, ...rest } = server;
  return {
    ...rest,
    ...(callerSeparation === undefined ? {} : { apart: callerSeparation }),
    connectionDigest: '',
    transport: transport.type,
    process,
    toolTimeoutMs: [...toolTimeoutMs],
    tools: { include: tools.include === null ? null : [...tools.include], exclude: [...tools.exclude] },
  };
}

const made = new WeakMap<ServerText, Server>();

/** Returns the same server for the same object. */
export function foreignServer(text: ServerText): Server {
  const known = made.get(text);
  if (known !== undefined) return known;
  const { transport, process, toolTimeoutMs, tools, apart, ...rest } = text;
  const server = {
    ...rest,
    ...(apart === undefined ? {} : { callerSeparation: apart }),
    transport: transportOf(transport, process),
    toolTimeoutMs: new Map(toolTimeoutMs),
    tools: { include: tools.include === null ? null : new Set(tools.include), exclude: new Set(tools.exclude) },
  };
  made.set(text, server);
  return server;
}

function transportOf(type: TransportSpec['type'], process: boolean): TransportSpec {
  switch (type) {
    case 'stdio':
      return { type, command: '', args: [], env: {}, inheritEnv: false, cwd: '' };
    case 'docker':
      return { type, target: process ? { image: NO_IMAGE } : { container: '' }, env: {}, engine: null };
    case 'memory':
      return { type, key: '' };
    default:
      return { type, url: '', headers: {}, tls: {} };
  }
}

const NO_IMAGE = {
  name: '',
  command: [],
  entrypoint: null,
  cwd: null,
  user: null,
  network: null,
  volumes: [],
  readOnly: true,
  labels: {},
  limits: { memoryBytes: null, cpus: null, pids: null },
};
