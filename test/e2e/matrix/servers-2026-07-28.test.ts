import { runMatrix } from './run-matrix.ts';

runMatrix('2026-07-28');
