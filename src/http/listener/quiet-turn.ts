/** A longer turn of the event loop did other work since it polled for connections. */
const SHORT_MS = 0.2;
/** A loop without a quiet turn for this many turns is permanently busy. */
const MAX_TURNS = 500;

/**
 * Resolves in a turn of the event loop that found no new connections and had little other work, at the latest after
 * `mostMs`. Closing a listener or an idle connection at another moment resets bytes that have arrived and are not read yet.
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
