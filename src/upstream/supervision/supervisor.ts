import type { ClientProfile } from '../../model/client-profile.ts';
import { type Clock, within } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { Ownership } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { type AuthChallenge, type ServerState, UP } from '../../model/server-state.ts';
import { Attempt, type WaitingCall } from '../connection/attempt.ts';
import { asGatewayError } from '../connection/failures.ts';
import { ownEra } from '../connection/spoken-eras.ts';
import { challengeOf, Defect, failureClass } from '../health/failure-class.ts';
import { Misconfigured } from '../process/command.ts';
import { refusalOf, StartBackoff } from './start-backoff.ts';
import type { StartMark } from './start-marks.ts';
import { isAtRest, mayFollow, StateMachine, type Supervised } from './state-machine.ts';

interface SupervisorDeps {
  readonly server: string;
  /** What to do where it asks for credentials; absent: a login. */
  readonly advice?: string;
  /** A process of this machine; its crashes are restarted sooner than a remote server is asked again. */
  readonly local: boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly times: { readonly startupMs: number };
  /** What is wrong with its definition: it is never launched. Absent: nothing is wrong. */
  readonly misconfigured?: string | undefined;
  /** Records for the next process which start this one did not survive. Absent: starts are not recorded. */
  readonly mark?: StartMark | undefined;
  /** Of a node of a cluster. */
  readonly ownership?: Pick<Ownership, 'whenHeld'> | undefined;
}

/** S3.4 */
export const RESTART_GRACE_MS = 200;
/** A start that lasted so long was a good one, even if nothing was called in that time. */
const HEALTHY_AFTER_MS = 10_000;
/** How often calls may ask for an attempt before its time (F01). */
const EARLY_ATTEMPT_MS = 5_000;

/**
 * Starts, watches, backs off and restarts one server. Starts are single flight; a stop during a start wins; a restart is
 * a stop, a grace period and a start. A start goes on when the call that wanted it is gone.
 */
export class Supervisor {
  readonly #deps: SupervisorDeps;
  readonly #supervised: Supervised;
  readonly #machine: StateMachine;
  readonly #backoff: StartBackoff;
  /** Who wants the coming start; era null: in the one that the server speaks. null: no one client does. */
  wish: { readonly profile: ClientProfile; readonly era: Era | null } | null = null;
  /** What ended during the start under way. */
  #crashedMeanwhile: GatewayError | null = null;
  restarts = 0;
  /** Wall clock. */
  lastAttemptAt: number | null = null;
  /** Monotonic time at which the present or last start began. */
  startedAt = 0;
  /** Since when the first start is to come; null when it has come to something, or none is planned. */
  #dueAt: number | null = null;
  /** Resolves when it begins. */
  #due: PromiseWithResolvers<void> | null = null;
  #upSince = 0;
  #proven = false;
  #lastEarly = Number.NEGATIVE_INFINITY;
  /** They wait for the start that is under way or due, or for the one that a restart ends with. */
  #calls: WaitingCall[] = [];
  #running: { readonly attempt: Attempt; readonly done: Promise<void> } | null = null;
  #restarting: Promise<void> | null = null;
  #stopping: Promise<void> | null = null;
  #endGrace: () => void = () => {};
  /** Raised by every stop, so that what was begun before it can see that it lost. */
  #generation = 0;

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

  /** Of the answer that asked for credentials; null in every other state than `auth_required`. */
  get challenge(): AuthChallenge | null {
    return this.state === 'auth_required' && this.error !== null ? challengeOf(this.error) : null;
  }

  /** Failures that a person has to correct, or to log in for, are not counted (S3.8). */
  get consecutiveFailures(): number {
    return this.up ? 0 : this.#backoff.failures;
  }

  /** It could not be started, or not again. */
  get failing(): boolean {
    return !this.up && (this.#backoff.any || this.state === 'defect');
  }

  /** Wall clock; null when no attempt is planned. */
  get nextRetryAt(): number | null {
    const { nextAt } = this.#backoff;
    return nextAt === null ? null : this.#deps.clock.wall() + nextAt - this.#deps.clock.now();
  }

  /** Monotonic time from which the start under way, or the first one that is to come, has been due; null without one. */
  get startingSince(): number | null {
    return this.state === 'starting' || this.state === 'unknown' ? this.#dueAt : null;
  }

  /** Its start waits for others. */
  get waits(): boolean {
    return this.#running?.attempt.waiting ?? this.startingSince !== null;
  }

  /** A call waits for its start: that comes before starts in the background. */
  prioritize(call: WaitingCall): void {
    this.#calls.push(call);
    this.#running?.attempt.prioritize(call);
  }

  /** Its first start is to come, from outside, when those before it have begun. */
  due(): void {
    if (this.state === 'unknown') this.#dueAt ??= this.#deps.clock.now();
  }

  /** Starts it (when a stop under way is done), or joins what is under way. Resolves when that ended, well or not. */
  start(): Promise<void> {
    if (this.#restarting !== null) return this.#restarting;
    if (this.up || this.state === 'defect') return Promise.resolve();
    if (this.#stopping !== null) {
      const generation = this.#generation;
      return this.#stopping.then(() => (generation === this.#generation ? this.start() : undefined));
    }
    return this.#running?.done ?? this.#run(true);
  }

  /** As `ready`, started for this client where it is not up. */
  async readyFor(profile: ClientProfile, era: Era = ownEra(profile)): Promise<void> {
    if (this.up) return;
    this.wish = { profile, era };
    await this.ready();
  }

  /**
   * Waits until calls can be sent. A server that failed gets one attempt before its time, for all callers together, and
   * not more often than every 5 s; one that is unreachable is not waited for. Rejects with GatewayError.
   */
  async ready(): Promise<void> {
    if (this.#restarting !== null) await this.#restarting;
    if (this.up) return;
    const now = this.#deps.clock.now();
    // Nothing was started because of our own limits: trying again costs nothing.
    const early = this.error?.code === 'OVERLOADED' || now - this.#lastEarly >= EARLY_ATTEMPT_MS;
    if (this.#running !== null) await this.#running.done;
    else if (this.state === 'unknown' || this.state === 'degraded') await this.#run(true);
    else if (this.state === 'failed' && early) {
      this.#lastEarly = now;
      await this.#run(false);
    }
    if (!this.up) throw this.#refusal();
  }

  /** Whether it is up once the start that is under way, or due, has ended. That one is for this client; starts nothing. */
  async begunFor(profile: ClientProfile): Promise<boolean> {
    if (!this.up) this.wish = { profile, era: ownEra(profile) };
    if (this.#restarting !== null) await this.#restarting;
    else if (this.#running !== null) await this.#running.done;
    else if (this.state === 'unknown' && this.#dueAt !== null) await (this.#due ??= Promise.withResolvers()).promise;
    return this.up;
  }

  /** A call was answered: a crash from now on is a crash of a healthy server. */
  proved(): void {
    if (this.#proven) return;
    this.#proven = true;
    if (this.up) this.#backoff.forgive();
  }

  /**
   * A connection ended by itself. A crash from health is followed by a start at once, others by the curve. `openedAt`
   * (wall clock): what was opened before the present start says nothing of it.
   */
  crashed(error: GatewayError, openedAt = Number.POSITIVE_INFINITY): void {
    const found = failureClass(error);
    if (found === 'defect') this.defect(error);
    if (found === 'abort' || found === 'defect') return;
    const earlier = this.lastAttemptAt !== null && openedAt < this.lastAttemptAt;
    if (this.state === 'starting' && !earlier) this.#crashedMeanwhile ??= error;
    if (!this.up) return;
    if (error.code === 'AUTH_REQUIRED') {
      this.#askForCredentials(error);
      return;
    }
    const healthy = earlier || this.#proven || this.#deps.clock.now() - this.#upSince >= HEALTHY_AFTER_MS;
    if (healthy) this.#backoff.forgive();
    if (!healthy || !this.#deps.local) this.#backoff.count(error);
    this.restarts++;
    this.#machine.move('degraded', error);
    if (this.#backoff.any) this.#backOff(error);
    else void this.#run(true);
  }

  /** An exception that nothing expected: all of it ends until a restart. False where nothing of it runs anyway. */
  defect(error: GatewayError): boolean {
    if (!mayFollow(this.state, 'defect')) return false;
    this.#callOff();
    this.#machine.move('defect', error);
    void this.#supervised.halt();
    return true;
  }

  /** Stops it for good, or until `start`. A start or restart under way is given up. */
  stop(target: 'stopped' | 'suspended' = 'stopped'): Promise<void> {
    this.#restarting = null;
    return this.#stop(target);
  }

  /** What was suspended starts when it is next needed. */
  async wake(): Promise<void> {
    const generation = this.#generation;
    await this.#stopping;
    if (generation === this.#generation && this.state === 'suspended') this.#machine.move('unknown', null);
  }

  /** Stop, grace period, start. A stop at any moment cancels it. */
  restart(): Promise<void> {
    if (this.#restarting !== null) return this.#restarting;
    const restarting = this.#restart().finally(() => {
      if (this.#restarting === restarting) this.#restarting = null;
    });
    return (this.#restarting = restarting);
  }

  /** What was begun or planned before is given up. Returns the new generation. */
  #callOff(): number {
    this.#generation++;
    this.#calls = [];
    this.#dueAt = null;
    this.#begins();
    this.#backoff.cancel();
    this.#endGrace();
    const running = this.#running;
    this.#running = null;
    running?.attempt.cancel();
    return this.#generation;
  }

  /** Those who wait for the first start to begin wait for what has become of it. */
  #begins(done?: Promise<void>): void {
    this.#due?.resolve(done);
    this.#due = null;
  }

  #stop(target: 'stopped' | 'suspended'): Promise<void> {
    const generation = this.#callOff();
    const rest = target === 'stopped' && !this.#deps.local ? 'disconnected' : target;
    const halted = async (): Promise<void> => {
      await this.#supervised.halt();
      if (generation !== this.#generation) return;
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
    const generation = this.#generation;
    await stopped;
    if (generation === this.#generation) await this.#grace();
    if (generation === this.#generation) {
      this.restarts++;
      this.#backoff.forgive();
      this.#deps.mark?.release();
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
    const { misconfigured, mark, server } = this.#deps;
    const held = mark?.held;
    if (misconfigured !== undefined) {
      this.#machine.move('misconfigured', new Misconfigured(misconfigured, server));
      this.#begins();
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
    this.#begins(done);
    return done;
  }

  async #attempt(attempt: Attempt, counts: boolean): Promise<void> {
    const { clock, mark, server, times } = this.#deps;
    let failure: GatewayError | null = null;
    const ended = await mark?.begin(attempt.begun); // The state says `starting` first.
    if (this.#running?.attempt !== attempt) return ended?.();
    const launch = (async () => this.#supervised.launch(attempt))().finally(ended);
    const { startupMs } = times;
    try {
      // The time in which it waits for its place is not its own.
      await Promise.race([launch, attempt.begun]);
      this.startedAt = clock.now();
      await within(clock, startupMs, launch, () => {
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
    if (failure === null) this.#cameUp();
    else if (failure.code === 'AUTH_REQUIRED') this.#askForCredentials(failure);
    else if (failureClass(failure) === 'defect') this.defect(failure);
    else {
      if (counts) this.#backoff.count(failure);
      this.#backOff(failure);
    }
  }

  #cameUp(): void {
    this.#backoff.cancel();
    this.#upSince = this.#deps.clock.now();
    this.#machine.move(this.#deps.local ? 'running' : 'connected', null);
    const crashed = this.#crashedMeanwhile;
    this.#crashedMeanwhile = null;
    if (crashed !== null) this.crashed(crashed);
  }

  /** Nothing but credentials will help, so nothing is planned. */
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
    return refusalOf(this.#deps.server, state, error, Math.max(0, Math.round(soonest - now)), this.#deps.advice);
  }
}
