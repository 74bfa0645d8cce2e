import { runMatrix } from './run-matrix.ts';

runMatrix('2024-11-05');
