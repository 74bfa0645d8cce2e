import { runMatrix } from './run-matrix.ts';

runMatrix('2025-03-26');
