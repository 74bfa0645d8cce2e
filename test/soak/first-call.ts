import { type FirstCall, measureFirstCalls } from '../../bench/first-call.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const ROUNDS = 5;
const COLD_MS = 8_000;
const WARM_MS = 1_000;

async function run({ short }: Run): Promise<Outcome> {
  const [server, npx, installed, alone] = (await measureFirstCalls(short ? 1 : ROUNDS)).map(fastest);
  return {
    figures: [
      figure('by npx, once more', npx!.warmMs, 'ms'),
      figure('of that what npx takes to start `trunkline --version`', alone!.warmMs, 'ms'),
      figure('the server alone by npx, once more', server!.warmMs, 'ms'),
      figure('by npx, nothing in its cache', npx!.coldMs, 'ms', COLD_MS),
      figure('installed, once more', installed!.warmMs, 'ms', WARM_MS),
      figure('by npx, beyond both of these', npx!.warmMs - alone!.warmMs - server!.warmMs, 'ms'),
      figure('the server alone by npx, nothing in its cache', server!.coldMs, 'ms'),
    ],
    broken: [],
  };
}

/** Other work of the machine makes the other rounds slower. */
function fastest({ coldMs, warmMs }: FirstCall): { readonly coldMs: number; readonly warmMs: number } {
  return { coldMs: Math.min(...coldMs), warmMs: Math.min(...warmMs) };
}

export const FIRST_CALL: Proof = {
  id: 'first-call',
  group: 'soak',
  claim:
    'With only Node and npm, `npx trunkline -- npx -y server` answers the first call within 8 s; once npm has the server, an installed gateway answers it within 1 s. By npx it then takes longer, as npx starts twice (the fastest of five)',
  shortened: 'all but one of the five rounds',
  run,
};
