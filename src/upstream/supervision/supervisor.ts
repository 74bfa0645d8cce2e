import type { ClientProfile } from '../../model/client-profile.ts';
import { type Clock, withTimeout } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { Ownership } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { type AuthChallenge, type ServerState, UP } from '../../model/server-state.ts';
import { Attempt, type WaitingCall } from '../connection/attempt.ts';
import { asGatewayError } from '../connection/failures.ts';
import { ownEra } from '../connection/supported-eras.ts';
import { challengeOf, Defect, failureClass } from '../health/failure-class.ts';
import { Misconfigured } from '../process/command.ts';
import { StartBackoff, stateError } from './start-backoff.ts';
import type { StartRecord } from './start-records.ts';
import { canTransition, isAtRest, StateMachine, type Supervised } from './state-machine.ts';

interface SupervisorDeps {
  readonly server: string;
  /** Advice if it requires credentials; absent: a login. */
  readonly advice?: string;
  /** Whether it runs on this machine: it is then restarted sooner after a crash than a remote server is retried. */
  readonly local: boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly times: { readonly startupMs: number };
  /** What is wrong with its definition: it is never launched. Absent: nothing. */
  readonly misconfigured?: string | undefined;
  /** Records for the next process during which start this one crashed. Absent: starts are not recorded. */
  readonly startRecord?: StartRecord | undefined;
  /** Ownership in a cluster; absent without one. */
  readonly ownership?: Pick<Ownership, 'onLeaseAcquired'> | undefined;
}

/** S3.4 */
export const RESTART_GRACE_MS = 200;
/** A server that was up this long was healthy, even if it was not called. */
const HEALTHY_AFTER_MS = 10_000;
/** Minimum time between two attempts that calls trigger before the planned one (F01). */
const EARLY_ATTEMPT_MS = 5_000;

/**
 * Starts, watches and restarts one server, with back-off. Starts are single flight; a stop during a start wins; a restart is a
 * stop, a grace period and a start. A start continues when the call that triggered it is gone.
 */
export class Supervisor {
  readonly #deps: SupervisorDeps;
  readonly #supervised: Supervised;
  readonly #machine: StateMachine;
  readonly #backoff: StartBackoff;
  /** The client of the next start; era null: the server's own. null: no single client requested it. */
  requester: { readonly profile: ClientProfile; readonly era: Era | null } | null = null;
  /** The error of a connection that ended during the current start. */
  #crashedMeanwhile: GatewayError | null = null;
  restarts = 0;
  /** Wall clock. */
  lastAttemptAt: number | null = null;
  /** Monotonic time at which the current or last start began. */
  startedAt = 0;
  /** Since when the first start is due; null after its end, or if none is planned. */
  #dueAt: number | null = null;
  /** Resolves when that start begins. */
  #due: PromiseWithResolvers<void> | null = null;
  #upSince = 0;
  #proven = false;
  #lastEarly = Number.NEGATIVE_INFINITY;
  /** Calls that wait for the current start, or for the one at the end of a restart. */
  #calls: WaitingCall[] = [];
  #running: { readonly attempt: Attempt; readonly done: Promise<void> } | null = null;
  #restarting: Promise<void> | null = null;
  #stopping: Promise<void> | null = null;
  #endGrace: () => void = () => {};
  /** Incremented by every stop, so that earlier work can see that it was stopped. */
  generation = 0;

  constructor(deps: SupervisorDeps, supervised: Supervised) {
    this.#deps = deps;
    this.#supervised = supervised;
    this.#machine = new StateMachine(deps.server, deps.clock, supervised);
    this.#backoff = new StartBackoff(deps);
  }

  get state(): ServerState {
    return this.#machine.state;
  }

  get up(): boolean {
    return UP.has(this.state);
  }

  get error(): GatewayError | null {
    return this.#machine.error;
  }

  get reason(): string | null {
    return this.error?.message ?? null;
  }

  /** The challenge of the answer that required credentials; null in every state but `auth_required`. */
  get challenge(): AuthChallenge | null {
    return this.state === 'auth_required' && this.error !== null ? challengeOf(this.error) : null;
  }

  /** Failures that need a person to correct something, or a login, are not counted (S3.8). */
  get consecutiveFailures(): number {
    return this.up ? 0 : this.#backoff.failures;
  }

  /** Whether it could not be started or restarted. */
  get failing(): boolean {
    return !this.up && (this.#backoff.any || this.state === 'defect');
  }

  /** Wall clock; null if no attempt is planned. */
  get nextRetryAt(): number | null {
    const { nextAt } = this.#backoff;
    return nextAt === null ? null : this.#deps.clock.wall() + nextAt - this.#deps.clock.now();
  }

  /** Monotonic time since which the current or first start has been due; null without one. */
  get startingSince(): number | null {
    return this.state === 'starting' || this.state === 'unknown' ? this.#dueAt : null;
  }

  /** Whether its start waits in the queue. */
  get queued(): boolean {
    return this.#running?.attempt.waiting ?? this.startingSince !== null;
  }

  /** If the call waits for a start, that start precedes background starts. */
  prioritize(call: WaitingCall): void {
    if (this.#running === null && this.#restarting === null) return;
    this.#calls.push(call);
    this.#running?.attempt.prioritize(call);
  }

  /** Its first start is due and will be triggered from outside when earlier ones have begun. */
  due(): void {
    if (this.state === 'unknown') this.#dueAt ??= this.#deps.clock.now();
  }

  /** Starts it (after a current stop), or joins the current start. Resolves when that has ended, whatever the result. */
  start(): Promise<void> {
    if (this.#restarting !== null) return this.#restarting;
    if (this.up || this.state === 'defect') return Promise.resolve();
    if (this.#stopping !== null) {
      const generation = this.generation;
      return this.#stopping.then(() => (generation === this.generation ? this.start() : undefined));
    }
    return this.#running?.done ?? this.#run(true);
  }

  /** As `ready`; a start is made for this client. */
  async readyFor(profile: ClientProfile, era: Era = ownEra(profile)): Promise<void> {
    if (this.up) return;
    this.requester = { profile, era };
    await this.ready();
  }

  /**
   * Waits until calls can be sent. A failed server gets one early attempt, for all callers together, at most every 5 s; an
   * unreachable one is not waited for. Rejects with GatewayError.
   */
  async ready(): Promise<void> {
    if (this.#restarting !== null) await this.#restarting;
    if (this.up) return;
    const now = this.#deps.clock.now();
    // Nothing was started because of the gateway's own limits: another attempt costs nothing.
    const early = this.error?.code === 'OVERLOADED' || now - this.#lastEarly >= EARLY_ATTEMPT_MS;
    if (this.#running !== null) await this.#running.done;
    else if (this.state === 'unknown' || this.state === 'degraded') await this.#run(true);
    else if (this.state === 'failed' && early) {
      this.#lastEarly = now;
      await this.#run(false);
    }
    // A restart has cancelled that start, and ends with another one.
    if (!this.up && this.#restarting !== null) await this.#restarting;
    if (!this.up) throw this.#refusal();
  }

  /** Waits for the current or due start, which is made for this client, and returns whether it is up. Starts nothing. */
  async waitForStart(profile: ClientProfile): Promise<boolean> {
    if (!this.up) this.requester = { profile, era: ownEra(profile) };
    if (this.#running !== null) await this.#running.done;
    else if (this.state === 'unknown' && this.#dueAt !== null) await (this.#due ??= Promise.withResolvers()).promise;
    if (!this.up && this.#restarting !== null) await this.#restarting;
    return this.up;
  }

  /** A call was answered: a later crash is one of a healthy server. */
  markHealthy(): void {
    if (this.#proven) return;
    this.#proven = true;
    if (this.up) this.#backoff.reset();
  }

  /**
   * A connection ended by itself. A local server that was healthy restarts at once, any other with back-off. `openedAt` (wall
   * clock): a connection that was opened before the current start says nothing about that start.
   */
  crashed(error: GatewayError, openedAt = Number.POSITIVE_INFINITY): void {
    const found = failureClass(error);
    if (found === 'defect') this.defect(error);
    if (found === 'abort' || found === 'defect') return;
    const earlier = this.lastAttemptAt !== null && openedAt < this.lastAttemptAt;
    if (this.state === 'starting' && !earlier) this.#crashedMeanwhile ??= error;
    if (this.up && error.code === 'AUTH_REQUIRED') this.#askForCredentials(error);
    if (!this.up) return;
    const healthy = earlier || this.#proven || this.#deps.clock.now() - this.#upSince >= HEALTHY_AFTER_MS;
    if (healthy) this.#backoff.reset();
    if (!healthy || !this.#deps.local) this.#backoff.count(error);
    this.restarts++;
    this.#machine.move('degraded', error);
    if (this.#backoff.any) this.#backOff(error);
    else void this.#run(true);
  }

  /** An unexpected exception: closes everything until a restart. False if the state does not allow `defect`. */
  defect(error: GatewayError): boolean {
    if (!canTransition(this.state, 'defect')) return false;
    this.#cancelStart();
    this.#machine.move('defect', error);
    void this.#supervised.halt();
    return true;
  }

  /** Stops it until `start`. A current start or restart is cancelled. */
  stop(target: 'stopped' | 'suspended' = 'stopped'): Promise<void> {
    this.#restarting = null;
    return this.#stop(target);
  }

  /** A suspended server starts when it is next needed. */
  async wake(): Promise<void> {
    const generation = this.generation;
    await this.#stopping;
    if (generation === this.generation && this.state === 'suspended') this.#machine.move('unknown', null);
  }

  /** Stop, grace period, start. A stop at any moment cancels it. */
  restart(): Promise<void> {
    if (this.#restarting !== null) return this.#restarting;
    const restarting = this.#restart().finally(() => {
      if (this.#restarting === restarting) this.#restarting = null;
    });
    return (this.#restarting = restarting);
  }

  /** Cancels the current start and planned attempts. Returns the new generation. */
  #cancelStart(): number {
    this.generation++;
    this.#calls = [];
    this.#dueAt = null;
    this.#resolveDue();
    this.#backoff.cancel();
    this.#endGrace();
    const running = this.#running;
    this.#running = null;
    running?.attempt.cancel();
    return this.generation;
  }

  /** Waiters for the first start now wait for its result. */
  #resolveDue(done?: Promise<void>): void {
    this.#due?.resolve(done);
    this.#due = null;
  }

  #stop(target: 'stopped' | 'suspended'): Promise<void> {
    const generation = this.#cancelStart();
    const rest = target === 'stopped' && !this.#deps.local ? 'disconnected' : target;
    const halted = async (): Promise<void> => {
      await this.#supervised.halt();
      if (generation !== this.generation) return;
      this.#stopping = null;
      this.#machine.move(rest, null);
    };
    if (!isAtRest(this.state)) {
      this.#machine.move('stopping');
      return (this.#stopping = halted());
    }
    this.#machine.move(rest, null);
    return Promise.resolve();
  }

  async #restart(): Promise<void> {
    this.#supervised.recovery?.('started', null);
    const stopped = this.#stop('stopped');
    const generation = this.generation;
    await stopped;
    if (generation === this.generation) await this.#grace();
    if (generation === this.generation) {
      this.restarts++;
      this.#backoff.reset();
      this.#deps.startRecord?.release();
      await this.#run(true);
    }
    if (this.up) this.#supervised.recovery?.('succeeded', null);
    else this.#supervised.recovery?.('failed', this.reason ?? `it is ${this.state}`);
  }

  #grace(): Promise<void> {
    return new Promise((resolve) => {
      const disarm = this.#deps.clock.after(RESTART_GRACE_MS, resolve);
      this.#endGrace = () => {
        disarm();
        resolve();
      };
    });
  }

  #run(counts: boolean): Promise<void> {
    const { misconfigured, startRecord, server } = this.#deps;
    const held = startRecord?.blockedReason;
    if (misconfigured !== undefined) {
      this.#machine.move('misconfigured', new Misconfigured(misconfigured, server));
      this.#resolveDue();
      return Promise.resolve();
    }
    if (held != null) {
      this.defect(new Defect(server, held, held));
      return Promise.resolve();
    }
    if (counts) this.#backoff.cancel();
    this.#machine.move('starting');
    const attempt = new Attempt();
    for (const call of this.#calls) attempt.prioritize(call);
    this.startedAt = this.#deps.clock.now();
    this.#dueAt ??= this.startedAt;
    this.lastAttemptAt = this.#deps.clock.wall();
    this.#proven = false;
    this.#crashedMeanwhile = null;
    const done = this.#attempt(attempt, counts);
    this.#running = { attempt, done };
    this.#resolveDue(done);
    return done;
  }

  async #attempt(attempt: Attempt, counts: boolean): Promise<void> {
    const { clock, startRecord, server, times } = this.#deps;
    let failure: GatewayError | null = null;
    const ended = await startRecord?.begin(attempt.started); // The state is `starting` meanwhile.
    if (this.#running?.attempt !== attempt) return ended?.();
    const launch = (async () => this.#supervised.launch(attempt))().finally(ended);
    const { startupMs } = times;
    try {
      // Waiting for a place does not count as start time.
      await Promise.race([launch, attempt.started]);
      this.startedAt = clock.now();
      await withTimeout(clock, startupMs, launch, () => {
        attempt.cancel();
        throw new GatewayError('NOT_SENT', `${server} did not start within ${startupMs} ms`, { server });
      });
    } catch (error) {
      failure = asGatewayError(error, server);
    }
    if (this.#running?.attempt !== attempt) return;
    this.#running = null;
    this.#calls = [];
    this.#dueAt = null;
    if (failure === null) this.#onStarted();
    else if (failure.code === 'AUTH_REQUIRED') this.#askForCredentials(failure);
    else if (failureClass(failure) === 'defect') this.defect(failure);
    else {
      if (counts) this.#backoff.count(failure);
      this.#backOff(failure);
    }
  }

  #onStarted(): void {
    this.#backoff.cancel();
    this.#upSince = this.#deps.clock.now();
    this.#machine.move(this.#deps.local ? 'running' : 'connected', null);
    const crashed = this.#crashedMeanwhile;
    this.#crashedMeanwhile = null;
    if (crashed !== null) this.crashed(crashed);
  }

  /** Only credentials help, so no attempt is planned. */
  #askForCredentials(error: GatewayError): void {
    this.#backoff.cancel();
    this.#supervised.beforeAuthRequired?.(error);
    this.#machine.move('auth_required', error);
  }

  #backOff(error: GatewayError): void {
    this.#backoff.plan(() => {
      if (this.#running === null) void this.#run(true);
    }, error);
    this.#machine.move(this.#backoff.unreachable ? 'unreachable' : 'failed', error);
  }

  #refusal(): GatewayError {
    const { state, error } = this.#machine;
    const now = this.#deps.clock.now();
    const retryAt = this.#backoff.nextAt ?? now;
    const soonest = state === 'failed' ? Math.min(retryAt, this.#lastEarly + EARLY_ATTEMPT_MS) : retryAt;
    return stateError(this.#deps.server, state, error, Math.max(0, Math.round(soonest - now)), this.#deps.advice);
  }
}
