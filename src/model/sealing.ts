/** Encrypts small texts; a text sealed for one context opens for no other. */
export interface Sealing {
  seal(context: string, text: string): string;
  /** Null for text that was not sealed for this context with a known key. */
  open(context: string, sealed: string): string | null;
  /** Whether an older key sealed a text that opens, so that it should be sealed again. Present only with several keys. */
  outdated?(context: string, sealed: string): boolean;
}

/** The text sealed with the current key; null if that key sealed it already, or no key opens it. */
export function resealOutdated(sealing: Sealing, context: string, sealed: string): string | null {
  const text = sealing.outdated?.(context, sealed) === true ? sealing.open(context, sealed) : null;
  return text === null ? null : sealing.seal(context, text);
}

/** Seals with the first key and opens with any of them, while the secret behind them is being changed. */
export function sealingOf(keys: readonly Buffer[], make: (key: Buffer) => Sealing): Sealing {
  const [inForce, ...others] = keys.map(make);
  if (inForce === undefined) throw new RangeError('nothing is sealed without a key');
  if (others.length === 0) return inForce;
  const byOthers = (context: string, sealed: string): string | null => {
    for (const other of others) {
      const text = other.open(context, sealed);
      if (text !== null) return text;
    }
    return null;
  };
  return {
    seal: (context, text) => inForce.seal(context, text),
    open: (context, sealed) => inForce.open(context, sealed) ?? byOthers(context, sealed),
    outdated: (context, sealed) => inForce.open(context, sealed) === null && byOthers(context, sealed) !== null,
  };
}
