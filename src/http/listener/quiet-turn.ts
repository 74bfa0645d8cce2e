/** A turn of the loop that took longer did other things since it looked for connections. */
const SHORT_MS = 0.2;
/** A loop that is never quiet for so many turns is busy for good. */
const MAX_TURNS = 500;

/**
 * Resolves in a turn of the event loop that has just looked for new connections and found none, nor much else to do. A
 * listening socket is to be closed then: whoever the kernel has let in, and nobody has taken from it yet, is reset by it; and so
 * are connections that are silent: what was sent and nobody has read is lost. `accepted` counts those taken;
 * `mostMs`: no longer than that is waited.
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
