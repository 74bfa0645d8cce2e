import { APPS } from './apps.ts';
import { ATTACKS } from './attacks.ts';
import { BALANCED } from './balancers.ts';
import { CHAOS } from './chaos.ts';
import { CLUSTER_CHAOS } from './cluster-chaos.ts';
import { FAULT_ROWS } from './fault-rows.ts';
import { FIRST_CALL } from './first-call.ts';
import { G3 } from './g3.ts';
import { G4 } from './g4.ts';
import { G5 } from './g5.ts';
import { G6 } from './g6.ts';
import { G7 } from './g7.ts';
import { G8 } from './g8.ts';
import { G9 } from './g9.ts';
import { G10 } from './g10.ts';
import { G11 } from './g11.ts';
import { G12 } from './g12.ts';
import { G13 } from './g13.ts';
import { G14 } from './g14.ts';
import { G16 } from './g16.ts';
import { G17 } from './g17.ts';
import { G20 } from './g20.ts';
import { IDLE } from './idle.ts';
import { LISTENERS } from './listeners.ts';
import { PENDING_INPUT } from './pending-input.ts';
import type { Proof } from './proof.ts';
import { REAL_SERVERS } from './real-servers.ts';
import { RUNS_OF_AGENTS } from './runs.ts';
import { TYPOS } from './typos.ts';

export const PROOFS: readonly Proof[] = [
  ...FAULT_ROWS,
  ATTACKS,
  BALANCED,
  CHAOS,
  CLUSTER_CHAOS,
  TYPOS,
  G3,
  G4,
  G5,
  G6,
  G7,
  G8,
  G9,
  G10,
  G11,
  G12,
  G13,
  G14,
  G16,
  G17,
  G20,
  PENDING_INPUT,
  IDLE,
  LISTENERS,
  RUNS_OF_AGENTS,
  FIRST_CALL,
  REAL_SERVERS,
  APPS,
];
