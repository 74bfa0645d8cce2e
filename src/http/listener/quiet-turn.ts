/** A turn of the loop that took longer did other things since it looked for connections. */
const SHORT_MS = 0.2;
/** A loop that is never quiet for so many turns is busy for good. */
const MAX_TURNS = 500;

/**
 * Resolves in a turn of the event loop that found no new connections and had little else to do, at the latest after
 * `mostMs`. Closing a listener or a silent connection at another moment resets what has come and was not read yet.
 */
export function atQuietTurn(accepted: () => number, mostMs = Number.POSITIVE_INFINITY): Promise<void> {
  let seen = accepted();
  let lookedAt = performance.now();
  const end = lookedAt + mostMs;
  let turns = 0;
  return new Promise((resolve) => {
    const look = (): void => {
      const now = performance.now();
      const quiet = accepted() === seen && now - lookedAt <= SHORT_MS;
      if (quiet || now >= end || ++turns >= MAX_TURNS) resolve();
      else {
        seen = accepted();
        lookedAt = now;
        setImmediate(look);
      }
    };
    setImmediate(look);
  });
}
