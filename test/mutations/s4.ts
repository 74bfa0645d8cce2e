import type { Mutation } from './mutations.ts';

export const S4: readonly Mutation[] = [];
