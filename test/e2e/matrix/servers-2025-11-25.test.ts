import { runMatrix } from './run-matrix.ts';

runMatrix('2025-11-25');
