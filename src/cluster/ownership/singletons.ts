import type { Clock } from '../../model/clock.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import { UP } from '../../model/server-state.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LocalUpstreams } from '../cluster-deps.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './held-claims.ts';
import { SINGLETON } from './placement.ts';
import { StartFailures } from './start-failures.ts';

/** Truth is level: whoever is not told of the end of an owner finds out by itself. */
const LOOK_MS = 1_000;

export interface SingletonsDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly claims: Claims;
  /** Whether this node may take something new. */
  readonly able: () => boolean;
  /** Which singletons run here is another. */
  readonly changed: () => Promise<void>;
  /** A claim has become this node's: it begins here if it has a place here, and is not on its way to another node. */
  readonly claimed: (claim: Claim) => Promise<unknown>;
  /** What ran here of it before has not ended yet. */
  readonly leaving: (server: string) => boolean;
  readonly local: () => Pick<LocalUpstreams, 'failing' | 'status'>;
  /** Whether another node could take it. */
  readonly readyElsewhere: (server: string) => boolean;
  /** Another node is to have it, as soon as nothing is left of it here. */
  readonly giveUp: (claim: Claim) => void;
}

/**
 * The servers of which the whole cluster runs one: whichever home claims one first runs it, until its lease ends, or, if it
 * cannot be started there and another home may have more luck, until that is plain.
 */
export class Singletons {
  readonly #deps: SingletonsDeps;
  #servers: readonly Server[] = [];
  readonly #here = new Set<string>();
  readonly #startFailures: StartFailures;
  #looking = false;
  #stop: () => void = () => {};
  #closed = false;
  #applied: Promise<void> = Promise.resolve();

  constructor(deps: SingletonsDeps) {
    this.#deps = deps;
    this.#startFailures = new StartFailures(deps.clock);
  }

  /** Which of these definitions run here now. */
  runsHere(server: Server): boolean {
    return !isSingleton(server) || this.#here.has(server.name);
  }

  /** The claims of those that are not among them any more are kept: their processes are there still. */
  replace(servers: Iterable<Server>): void {
    const before = this.#servers;
    this.#servers = [...servers].filter((server) => isSingleton(server) && server.enabled);
    const now = new Map(this.#servers.map((server) => [server.name, server]));
    for (const name of [...this.#here]) if (!now.has(name)) this.#here.delete(name);
    // Another one may have more luck.
    for (const { name, connectionDigest } of before) {
      if (now.get(name)?.connectionDigest !== connectionDigest) this.#startFailures.forget(name);
    }
    this.look();
  }

  /** Something may have become free. */
  look(): void {
    if (this.#closed) return;
    this.#stop();
    this.#stop = this.#deps.clock.after(LOOK_MS, () => this.look());
    if (this.#servers.length === 0 || this.#looking || !this.#deps.able()) return;
    this.#looking = true;
    void this.#take().finally(() => {
      this.#looking = false;
    });
  }

  /** This node could not start it, and lets others have it first. */
  yields(server: string): boolean {
    return this.#startFailures.paused(server) && this.#deps.readyElsewhere(server);
  }

  /** Claimed by whoever needed it: it has to run here before it is used. */
  async begin(server: string): Promise<void> {
    if (this.#deps.leaving(server)) return;
    if (!this.#here.has(server)) {
      this.#here.add(server);
      this.#deps.logger.info('singleton_claimed', { server });
      this.#applied = this.#deps.changed();
    }
    await this.#applied;
  }

  /** Somebody else has it, or may have. */
  lost(server: string): void {
    if (!this.#here.delete(server)) return;
    this.#deps.logger.warn('singleton_lost', { server });
    this.#applied = this.#deps.changed();
  }

  /** Another node is to have it. Resolves when what ran of it here has ended. */
  async leave(server: string): Promise<void> {
    if (!this.#here.delete(server)) return;
    this.#deps.logger.info('singleton_handed_over', { server });
    await (this.#applied = this.#deps.changed());
  }

  close(): void {
    this.#closed = true;
    this.#stop();
  }

  async #take(): Promise<void> {
    const { claims, logger } = this.#deps;
    for (const { name } of this.#servers) {
      const mine = claims.mine(name, SINGLETON);
      const runs = mine !== null && this.#here.has(name);
      if (runs) this.#judge(mine);
      if (runs || this.#deps.leaving(name) || this.yields(name)) continue;
      try {
        const owner = await claims.claim(name, SINGLETON);
        if (owner.kind === 'mine' && !this.#closed) await this.#deps.claimed(owner.claim);
      } catch (error) {
        logger.debug('singleton_not_claimed', { server: name, error: String(error) });
      }
    }
  }

  /** What runs may stay, and so may what no other node could run. */
  #judge(claim: Claim): void {
    const { local, readyElsewhere, giveUp, logger } = this.#deps;
    const { server } = claim;
    const status = local().status(server);
    if (UP.has(status?.state ?? 'unknown')) this.#startFailures.forget(server);
    else if (
      this.#startFailures.isLong(server, local().failing(server)) &&
      claim.serving === 0 &&
      readyElsewhere(server)
    ) {
      this.#startFailures.gaveUp(server);
      logger.warn('singleton_given_up', { server, reason: status?.reason ?? 'it could not be started here' });
      giveUp(claim);
    }
  }
}

/** Only processes are counted: what stands behind a URL is there once in any case. */
export function isSingleton(server: Server): boolean {
  return server.singleton === true && isOwnProcess(server);
}
