import type { ClientProfile } from '../../model/client-profile.ts';
import type { Replica } from './replica.ts';

/** Sessions and handles that are remembered; beyond that the one that sent nothing for longest is bound anew. */
const MAX_BOUND = 65_536;

interface Binding {
  readonly replica: Replica;
  /** null for a handle. */
  readonly sessionId: string | null;
  /** It has talked to the replica, which may keep something for it. */
  talked: boolean;
}

/**
 * Who keeps to which replica: client sessions, and clients without one that name themselves by a handle. Anybody else
 * has nothing by which a second call could be told to be of the same client.
 */
export class Affinity {
  readonly #bindings = new Map<string, Binding>();

  /** Where the holder keeps to; null for nowhere yet. */
  of(holder: string, talks: boolean): Replica | null {
    const binding = this.#bindings.get(holder);
    if (binding === undefined) return null;
    if (talks) {
      binding.talked = true;
      this.#bindings.delete(holder);
      this.#bindings.set(holder, binding);
    }
    return binding.replica;
  }

  bind(holder: string, sessionId: string | null, replica: Replica, talks: boolean): void {
    this.release(holder);
    if (this.#bindings.size >= MAX_BOUND) this.release(this.#bindings.keys().next().value!);
    this.#bindings.set(holder, { replica, sessionId, talked: talks });
    replica.bound++;
  }

  release(holder: string): void {
    const binding = this.#bindings.get(holder);
    if (binding === undefined) return;
    this.#bindings.delete(holder);
    binding.replica.bound--;
  }

  /** The replica has ended, or is about to: nobody keeps to it any more. The sessions that had talked to it. */
  releaseAll(replica: Replica): string[] {
    const talked: string[] = [];
    for (const [holder, { replica: one, sessionId, talked: hasTalked }] of this.#bindings) {
      if (one !== replica) continue;
      this.release(holder);
      if (hasTalked && sessionId !== null) talked.push(sessionId);
    }
    return talked;
  }
}

/** By what the client is known again; null for nothing. */
export function holderOf({ sessionId, handle, principal }: ClientProfile): string | null {
  if (sessionId !== null) return sessionId;
  return handle === null ? null : `${principal.id} ${handle}`;
}
