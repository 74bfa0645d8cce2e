import { Sealer } from '../gateway/sealer.ts';
import type { Sealing } from '../model/sealing.ts';

/** Seals with the first of the keys, and opens what any of them sealed: while a key is being changed there are several. */
export function sealingOf(key: Buffer, previous: readonly Buffer[] = []): Sealing {
  const sealer = new Sealer(key);
  const others = previous.map((one) => new Sealer(one));
  return {
    seal: (context, text) => sealer.seal(context, text),
    open(context, sealed) {
      const text = sealer.open(context, sealed);
      if (text !== null) return text;
      for (const other of others) {
        const opened = other.open(context, sealed);
        if (opened !== null) return opened;
      }
      return null;
    },
  };
}
