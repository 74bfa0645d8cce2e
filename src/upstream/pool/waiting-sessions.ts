/**
 * Client sessions that wait for a connection. A session can end while its server is still starting; what is opened for
 * it after that would be nobody's and would stay for ever.
 */
export class WaitingSessions {
  readonly #waiting = new Map<string, { count: number; ended: boolean }>();

  /** Does the work; if the session ended meanwhile, calls `release` when the last of its waiting work is over. */
  async during<T>(sessionId: string | null, work: () => Promise<T>, release: (sessionId: string) => void): Promise<T> {
    if (sessionId === null) return work();
    const entry = this.#waiting.get(sessionId) ?? { count: 0, ended: false };
    this.#waiting.set(sessionId, entry);
    entry.count++;
    try {
      return await work();
    } finally {
      if (--entry.count === 0) {
        this.#waiting.delete(sessionId);
        if (entry.ended) release(sessionId);
      }
    }
  }

  ended(sessionId: string): void {
    const entry = this.#waiting.get(sessionId);
    if (entry !== undefined) entry.ended = true;
  }
}
