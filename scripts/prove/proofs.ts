import { CHAOS } from './chaos.ts';
import { G6 } from './g6.ts';
import { G7 } from './g7.ts';
import { G9 } from './g9.ts';
import { G10 } from './g10.ts';
import { G16 } from './g16.ts';
import { G20 } from './g20.ts';
import { LISTENERS } from './listeners.ts';
import { PARKED } from './parked.ts';
import type { Proof } from './proof.ts';

export const PROOFS: readonly Proof[] = [CHAOS, G6, G7, G9, G10, G16, G20, PARKED, LISTENERS];
