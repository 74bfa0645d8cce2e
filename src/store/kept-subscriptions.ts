import { hash } from 'node:crypto';
import type { ClientProfile } from '../model/client-profile.ts';
import { type Clock, pause } from '../model/clock.ts';
import { Counts } from '../model/counts.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { SubscribedAgain, SubscribedResource } from '../model/ports.ts';
import { SESSIONS } from './remembered.ts';
import type { StateFile } from './state-file.ts';

interface KeptSubscriptionsDeps {
  readonly stateFile: StateFile;
  readonly clock: Clock;
  readonly gateway: {
    subscribeAgain(client: ClientProfile, resource: SubscribedResource): Promise<SubscribedAgain>;
    givenUp(sessionId: string, server: string, uri: string): void;
    mayHaveChanged(sessionId: string, exposed: string): void;
  };
  readonly downstream: () => {
    clientOf(sessionId: string): ClientProfile | null;
    listening(sessionId: string): boolean;
  };
}

interface KeptSubscription extends SubscribedResource {
  readonly sessionId: string;
  /** The id of its principal. */
  readonly of: string;
}

const BUCKET = 'subscription';
const MAX_OF_SESSION = 1_000;
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;

/**
 * The subscriptions of the sessions of a lone gateway in `state.db`: they survive a restart as their sessions do. When a client
 * opens a stream of its session at the next process, that one subscribes again and reports the resources as changed.
 */
export class KeptSubscriptions {
  readonly #deps: KeptSubscriptionsDeps;
  /** By session and key. */
  readonly #kept = new Map<string, Map<string, KeptSubscription>>();
  /** Those of earlier processes that this one has not made yet, and their number by principal. */
  readonly #due = new Set<KeptSubscription>();
  readonly #counts = new Counts();
  readonly #renewing = new Set<KeptSubscription>();

  constructor(deps: KeptSubscriptionsDeps) {
    this.#deps = deps;
    const { stateFile } = deps;
    for (const [key, kept] of stateFile.readAll(BUCKET, keptIn)) {
      const { sessionId } = kept;
      if (!this.#kept.has(sessionId) && stateFile.get(SESSIONS, sessionId) === null) stateFile.delete(BUCKET, key);
      else {
        this.#add(key, kept);
        this.#setDue(kept, true);
      }
    }
  }

  refusal(sessionId: string, { server, uri }: SubscribedResource): GatewayError | null {
    const kept = this.#kept.get(sessionId);
    if (kept === undefined || kept.size < MAX_OF_SESSION || kept.has(keyOf(sessionId, server, uri))) return null;
    const text = `No more than ${MAX_OF_SESSION} resources may be subscribed to in one session: give up others first`;
    return new GatewayError('OVERLOADED', text);
  }

  subscribedElsewhere(principal: string): number {
    return this.#counts.of(principal);
  }

  subscribed({ sessionId, principal }: ClientProfile, { server, uri, exposed }: SubscribedResource): void {
    if (sessionId === null) return;
    const key = keyOf(sessionId, server, uri);
    const kept: KeptSubscription = { sessionId, server, uri, exposed, of: principal.id };
    const before = this.#kept.get(sessionId)?.get(key);
    if (before !== undefined) this.#setDue(before, false);
    this.#add(key, kept);
    this.#deps.stateFile.put(BUCKET, key, Buffer.from(JSON.stringify(kept)), before === undefined);
  }

  givenUp(sessionId: string, server: string, uri: string): void {
    this.#remove(sessionId, keyOf(sessionId, server, uri));
  }

  sessionEnded(sessionId: string): void {
    for (const key of [...(this.#kept.get(sessionId)?.keys() ?? [])]) this.#remove(sessionId, key);
  }

  /** The client opens a stream of the session. */
  readonly opened = (sessionId: string): void => {
    for (const kept of this.#kept.get(sessionId)?.values() ?? []) if (this.#due.has(kept)) void this.#renew(kept);
  };

  /** Subscribes again. Tries as long as the client listens; its next stream begins anew. */
  async #renew(kept: KeptSubscription): Promise<void> {
    if (this.#renewing.has(kept)) return;
    this.#renewing.add(kept);
    const { clock, gateway, downstream } = this.#deps;
    const { sessionId, server, uri, exposed } = kept;
    for (let pauseMs = RETRY_MS; this.#due.has(kept); pauseMs = Math.min(pauseMs * 2, MAX_RETRY_MS)) {
      const client = downstream().clientOf(sessionId);
      if (client === null) break;
      // The gateway counts what it asks for.
      this.#setDue(kept, false);
      const how = await gateway.subscribeAgain(client, kept);
      const present = this.#kept.get(sessionId)?.get(keyOf(sessionId, server, uri));
      // The client gave it up, or subscribed itself, while the server was asked.
      if (present === undefined) gateway.givenUp(sessionId, server, uri);
      if (present !== kept) break;
      if (how === 'refused') {
        this.givenUp(sessionId, server, uri);
        gateway.mayHaveChanged(sessionId, exposed);
      }
      if (how !== 'later') break;
      this.#setDue(kept, true);
      await pause(clock, pauseMs);
      if (!downstream().listening(sessionId)) break;
    }
    this.#renewing.delete(kept);
  }

  #add(key: string, kept: KeptSubscription): void {
    const { sessionId } = kept;
    let ofSession = this.#kept.get(sessionId);
    if (ofSession === undefined) this.#kept.set(sessionId, (ofSession = new Map()));
    ofSession.set(key, kept);
  }

  #remove(sessionId: string, key: string): void {
    const ofSession = this.#kept.get(sessionId);
    const kept = ofSession?.get(key);
    if (ofSession === undefined || kept === undefined) return;
    this.#setDue(kept, false);
    ofSession.delete(key);
    if (ofSession.size === 0) this.#kept.delete(sessionId);
    this.#deps.stateFile.delete(BUCKET, key);
  }

  #setDue(kept: KeptSubscription, due: boolean): void {
    if (this.#due.has(kept) === due) return;
    if (due) this.#due.add(kept);
    else this.#due.delete(kept);
    this.#counts.add(kept.of, due ? 1 : -1);
  }
}

function keyOf(sessionId: string, server: string, uri: string): string {
  return `${sessionId}.${hash('sha256', `${server}\0${uri}`).slice(0, 32)}`;
}

function keptIn(value: Buffer, key: string): KeptSubscription | null {
  const kept = JSON.parse(value.toString()) as KeptSubscription;
  const { sessionId, server, uri, exposed, of } = kept;
  const whole = [sessionId, server, uri, exposed, of].every((word) => typeof word === 'string');
  return whole && keyOf(sessionId, server, uri) === key ? kept : null;
}
