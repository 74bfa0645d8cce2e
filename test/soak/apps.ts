import { AppHost } from '../support/app-host/app-host.ts';
import { installApps, OFFICIAL_APPS, problemsOf } from '../support/app-host/official-apps.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

async function run({ say }: Run): Promise<Outcome> {
  const installed = await installApps(OFFICIAL_APPS);
  if (typeof installed === 'string')
    return { figures: [], broken: [`the app servers were not installed: ${installed}`] };
  say(`${OFFICIAL_APPS.length} servers are installed`);
  const host = await AppHost.start();
  let gateway: RunningGateway | null = null;
  try {
    const config = { listen: { allowedOrigins: [host.origin] }, mcpServers: installed.definitions };
    gateway = await RunningGateway.start({ config });
    await gateway.ready();
    await host.connect(gateway.mcpUrl, Object.keys(installed.definitions));
    say('all are listed on /mcp');
    const broken = await problemsOf(host, OFFICIAL_APPS, installed);
    const refusing = OFFICIAL_APPS.filter(({ refuses }) => refuses !== undefined).length;
    for (const { name, lacks } of OFFICIAL_APPS) if (lacks !== undefined) say(`${name} did without ${lacks}`);
    return {
      figures: [
        figure('app servers behind /mcp', OFFICIAL_APPS.length, ''),
        figure('apps that show their result', OFFICIAL_APPS.length - refusing, ''),
        figure('apps that do not start without another machine', refusing, ''),
        figure('apps that ask their own server', OFFICIAL_APPS.filter(({ asks }) => asks !== undefined).length, ''),
        figure('problems', broken.length, '', 0),
      ],
      broken,
    };
  } finally {
    await host.close();
    await gateway?.dispose();
    installed.dispose();
  }
}

export const APPS: Proof = {
  id: 'apps',
  group: 'soak',
  claim:
    'All official MCP Apps servers from npm run behind /mcp at once; in a real Chromium each app that starts without another machine shows its result and gets answers from its own server',
  shortened: null,
  run,
};
