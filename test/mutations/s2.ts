import type { Mutation } from './mutations.ts';

export const S2: readonly Mutation[] = [
  {
    row: 'S2.9',
    what: 'a signal reaches only the leader of the process group',
    file: 'src/upstream/process/process-group.ts',
    find: 'process.kill(-group, signal);',
    replace: 'process.kill(group, signal);',
  },
];
