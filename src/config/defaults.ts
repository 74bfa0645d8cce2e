import { POOL_DEFAULTS } from '../model/desired-state.ts';

/** Defaults of the configuration; the schema, its documentation and the reader use them. */
export const DEFAULTS = {
  timeoutMs: 60_000,
  maxTimeoutMs: 600_000,
  retry: 'never',
  trusted: false,
  cache: true,
  start: 'eager',
  drift: 'warn',
  probeMs: 30_000,
  maxMessageBytes: 16 * 1024 * 1024,
  maxProcessesPerServer: 64,
  replicas: 1,
  singleton: false,
  maxProcesses: 256,
  pool: POOL_DEFAULTS,
  firstListWaitMs: 2000,
  unknownCallers: 'refuse',
  host: '127.0.0.1',
  port: 4270,
  controlPort: 4271,
  maxBodyBytes: 16 * 1024 * 1024,
  maxConnections: 16_384,
  /** A day: see docs/decisions/004-session-idle-time.md. */
  sessionIdleMs: 24 * 60 * 60 * 1000,
  maxSessions: 20_000,
  maxSessionsPerPrincipal: 10_000,
  execTimeoutMs: 10_000,
  traceSample: 1,
  metricsIntervalMs: 60_000,
  streamCopiesBytes: 64 * 1024 * 1024,
  logLevel: 'info',
} as const;

/** Maximum of every time: a week. Node's timers overflow after 24.8 days. */
export const MAX_TIME_MS = 7 * 24 * 60 * 60 * 1000;
