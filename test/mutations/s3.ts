import type { Mutation } from './mutations.ts';

export const S3: readonly Mutation[] = [];
