import type { Mutation } from './mutations.ts';

export const S1: readonly Mutation[] = [];
