import type { Origin, Server, TransportSpec } from '../../model/server.ts';
import { DEFAULTS } from '../defaults.ts';
import { connectionDigest } from './connection-digest.ts';

/** A server with nothing but a name and a way to reach it; everything else is the default. */
export function plainServer(name: string, transport: TransportSpec, origin: Origin): Server {
  const { maxMessageBytes, maxProcessesPerServer } = DEFAULTS;
  return {
    name,
    transport,
    description: null,
    isolation: null,
    isolationHeader: null,
    timeoutMs: DEFAULTS.timeoutMs,
    toolTimeoutMs: new Map(),
    retry: DEFAULTS.retry,
    trusted: DEFAULTS.trusted,
    cache: DEFAULTS.cache,
    start: DEFAULTS.start,
    probeMs: DEFAULTS.probeMs,
    drift: DEFAULTS.drift,
    enabled: true,
    tools: { include: null, exclude: new Set() },
    limits: { maxMessageBytes, maxProcesses: maxProcessesPerServer },
    origin,
    connectionDigest: connectionDigest({ transport, isolation: null, isolationHeader: null, maxMessageBytes }),
  };
}
