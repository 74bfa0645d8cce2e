import { HttpFailure } from '../../http/client/http-failure.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { bareHost, isLoopbackHost } from '../../model/host-address.ts';
import type { TransportSpec } from '../../model/server.ts';
import { DOWN, type LaunchFailure, LOGIN_ADVICE } from '../../model/server-state.ts';
import { sweptDefinition } from '../../model/swept-definition.ts';
import type { Connection } from '../connection/connection.ts';
import type { FailureClass } from '../health/failure-class.ts';
import { missingVariables } from '../process/environment.ts';
import type { ServerContext } from '../server-context.ts';
import { refusalOf } from '../transport/http-refusal.ts';
import type { LaunchSurroundings } from '../upstream-deps.ts';
import type { Transition } from './state-machine.ts';

/** What is known of a start that failed. */
export interface FailedStart {
  readonly transport: TransportSpec;
  readonly failure: FailureClass | null;
  readonly error: GatewayError | null;
  readonly missing: readonly string[];
  readonly inContainer: boolean;
  readonly exit: LaunchFailure['exit'];
  readonly timedOut: boolean;
}

/** Exit codes of shells and of programs that start others. */
const NOT_EXECUTABLE = 126;
const NOT_FOUND = 127;

/** Why, most probably, and what to do about it; null where nothing is known beyond the error itself. */
export function likelyCause({
  transport,
  failure,
  error,
  missing,
  inContainer,
  exit,
  timedOut,
}: FailedStart): string | null {
  if (missing.length > 0) {
    return `${missing.join(', ')} is to be handed on to it, and is not set in the gateway's own environment`;
  }
  if (failure === 'auth') return `it asks for credentials; ${LOGIN_ADVICE}`;
  if ('url' in transport) return ofRemote(error, inContainer && isHere(transport.url));
  if (failure === 'configuration') return 'its definition names something that is not there; see the error';
  if (exit?.code === NOT_FOUND) return 'a program that its command starts is not installed where it runs';
  if (exit?.code === NOT_EXECUTABLE) return 'a program that its command starts may not be executed';
  if (exit?.code === 0) return 'it ended by itself, as a program does that is no server or lacks an argument';
  if (exit !== null) return 'it ended by itself; its last words are in the tail of its standard error';
  if (timedOut) return 'it is waiting for something, is still fetching a package, or speaks no MCP on its output';
  return null;
}

const INSIDE =
  'the gateway runs in a container, where localhost is the container itself; name the host, as in host.docker.internal';

/** `inside`: its address means the gateway's own container. That matters only where nothing answered there. */
function ofRemote(error: GatewayError | null, inside: boolean): string | null {
  let unreached = false;
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    const status = at instanceof GatewayError ? (refusalOf(at)?.status ?? 0) : 0;
    if (status >= 500) return 'the server answered, and failed by itself; its own log says why';
    if (status >= 400) return 'something answered at its address and takes no MCP there; check the path of its url';
    if (at instanceof HttpFailure) unreached = !at.sent && at.kind !== 'tls' && at.kind !== 'proxy';
  }
  if (!unreached && error?.code === 'UPSTREAM_PROTOCOL') {
    return 'what answered at its address is no MCP server, but perhaps a web page or a login; check its url';
  }
  return inside && unreached ? INSIDE : null;
}

function isHere(url: string): boolean {
  return URL.canParse(url) && isLoopbackHost(bareHost(new URL(url).hostname));
}

const NO_SURROUNDINGS: LaunchSurroundings = { environment: {}, inContainer: false };

/** What was left of the connections of one start; it may come after the start has failed. */
interface Remains {
  exit: LaunchFailure['exit'];
  stderrTail: string;
}

/** What can be said of one server's last start that failed (S1.19): in the log once, in the status till one succeeds. */
export class LaunchReports {
  readonly #context: ServerContext;
  #startedAt = 0;
  /** Of the start under way, or of the last one. */
  #remains: Remains = { exit: null, stderrTail: '' };
  #last: { readonly failure: Omit<LaunchFailure, keyof Remains>; readonly remains: Remains } | null = null;

  constructor(context: ServerContext) {
    this.#context = context;
  }

  /** null when the last start succeeded, or none has ended. */
  get lastFailure(): LaunchFailure | null {
    if (this.#last === null) return null;
    return { ...this.#last.failure, ...this.#last.remains };
  }

  starting(): void {
    this.#startedAt = this.#context.deps.clock.now();
    this.#remains = { exit: null, stderrTail: '' };
  }

  ended({ ended, transport }: Connection): void {
    this.#remains.stderrTail = transport.stderrTail();
    if (ended?.kind === 'exited') this.#remains.exit = { code: ended.code, signal: ended.signal };
  }

  moved({ from, to, reason, failure, error, at }: Transition): void {
    if (from !== 'starting') return;
    this.#last = null;
    if (!DOWN.has(to)) return;
    const { deps, logger, times, server } = this.#context;
    const { transport } = server;
    const { environment, inContainer } = deps.surroundings ?? NO_SURROUNDINGS;
    const local = transport.type === 'stdio' ? transport : null;
    const swept = sweptDefinition(transport);
    const missing = local === null ? [] : missingVariables(local, environment);
    const found = {
      transport,
      failure,
      error,
      missing,
      inContainer,
      exit: this.#remains.exit,
      timedOut: deps.clock.now() - this.#startedAt >= times.startupMs,
    };
    const told = {
      at,
      error: logger.redact(reason ?? ''),
      likelyCause: likelyCause(found),
      command: swept.command === null ? null : logger.redact(swept.command),
      arguments: swept.args.map((arg) => logger.redact(arg)),
      environment: Object.keys(swept.env).sort(),
      missingVariables: missing,
      inContainer,
    };
    this.#last = { failure: told, remains: this.#remains };
    logger.warn('server_start_failed', { ...this.lastFailure });
  }
}
