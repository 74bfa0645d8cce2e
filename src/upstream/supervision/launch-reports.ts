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
export function likelyCause(start: FailedStart): string | null {
  const { transport, failure, error, missing, inContainer, exit, timedOut } = start;
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
    return this.#last === null ? null : { ...this.#last.failure, ...this.#last.remains };
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
    const { environment = {}, inContainer = false } = deps.surroundings ?? {};
    const { command, args, env } = sweptDefinition(transport);
    const missing = transport.type === 'stdio' ? missingVariables(transport, environment) : [];
    const { exit } = this.#remains;
    const timedOut = deps.clock.now() - this.#startedAt >= times.startupMs;
    const failed = {
      at,
      error: logger.redact(reason ?? ''),
      likelyCause: likelyCause({ transport, failure, error, missing, inContainer, exit, timedOut }),
      command: command === null ? null : logger.redact(command),
      arguments: args.map((arg) => logger.redact(arg)),
      environment: Object.keys(env).sort(),
      missingVariables: missing,
      inContainer,
    };
    this.#last = { failure: failed, remains: this.#remains };
    logger.warn('server_start_failed', { ...this.lastFailure });
  }
}
