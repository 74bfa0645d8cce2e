import type { Subject } from './cache-key.ts';
import type { Concern } from './concerned.ts';

/** A request in flight whose answer may be kept, unless what it asks for has changed since it began. */
export interface Fill {
  readonly subject: Subject;
  outdated: boolean;
}

interface WatchedFill extends Fill {
  /** Called when it is out of date: no caller may wait for it from now on. */
  readonly closed: () => void;
}

/** What is being fetched, by server, so that a notification reaches it before it has come (C6). */
export class Fills {
  readonly #fills = new Map<string, Set<WatchedFill>>();

  begin(subject: Subject, closed: () => void): Fill {
    const fill: WatchedFill = { subject, closed, outdated: false };
    const ofServer = this.#fills.get(subject.server);
    if (ofServer === undefined) this.#fills.set(subject.server, new Set([fill]));
    else ofServer.add(fill);
    return fill;
  }

  end(fill: Fill): void {
    const { server } = fill.subject;
    const ofServer = this.#fills.get(server);
    ofServer?.delete(fill as WatchedFill);
    if (ofServer?.size === 0) this.#fills.delete(server);
  }

  outdated(server: string, { method, of }: Concern): void {
    for (const fill of this.#fills.get(server) ?? []) {
      if (fill.subject.method === method && of(fill.subject)) close(fill);
    }
  }

  allOutdated(): void {
    for (const ofServer of this.#fills.values()) for (const fill of ofServer) close(fill);
  }
}

function close(fill: WatchedFill): void {
  if (fill.outdated) return;
  fill.outdated = true;
  fill.closed();
}
