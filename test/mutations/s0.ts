import type { Mutation } from './mutations.ts';

export const S0: readonly Mutation[] = [];
