import type { ConfigProblem } from '../config/problem/problem.ts';
import type { Instance } from '../store/data-folder.ts';

/** Why a gateway could not be built. Expected, all of it: the reader is a person who can mend it. */
export type OpenProblem =
  | { readonly kind: 'config'; readonly problems: readonly ConfigProblem[] }
  | { readonly kind: 'bind'; readonly message: string }
  /** The data folder cannot be written, or others may write to it. */
  | { readonly kind: 'folder'; readonly message: string; readonly remedy: string }
  /** What was decided at run time is damaged (F35). */
  | { readonly kind: 'truth'; readonly file: string; readonly message: string; readonly remedy: string }
  /** Another gateway has the data folder. */
  | { readonly kind: 'held'; readonly dataDir: string; readonly holder: Instance | null };
