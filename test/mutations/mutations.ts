import { S0 } from './s0.ts';
import { S1 } from './s1.ts';
import { S2 } from './s2.ts';
import { S3 } from './s3.ts';
import { S4 } from './s4.ts';

/** A change of one text. */
interface Change {
  /** Occurs exactly once in the file. */
  readonly find: string;
  readonly replace: string;
}

/** A change of one text in one file that removes the behaviour of one row of the mission from the product. */
export interface Mutation extends Change {
  readonly row: string;
  /** The defect that it makes, in a few words. */
  readonly what: string;
  readonly file: string;
  /** Another place of the file that also produces the behaviour. */
  readonly also?: Change;
}

export const MUTATIONS: readonly Mutation[] = [...S0, ...S1, ...S2, ...S3, ...S4];

/** The text of the file with the mutation; null where it does not apply, because the product was changed. */
export function mutated({ find, replace, also }: Change & Pick<Mutation, 'also'>, text: string): string | null {
  const at = text.indexOf(find);
  if (at === -1 || text.indexOf(find, at + 1) !== -1) return null;
  const changed = text.slice(0, at) + replace + text.slice(at + find.length);
  return also === undefined ? changed : mutated(also, changed);
}
