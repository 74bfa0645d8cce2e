import { Option } from 'commander';
import type { CommandParts } from '../command-input.ts';
import { type GatewayFlags, port } from '../flags.ts';

interface LoginFlags extends GatewayFlags {
  readonly device?: boolean;
  readonly browser: boolean;
  readonly callbackPort?: number;
  readonly finish?: string;
  readonly viaGateway?: boolean;
  readonly wait: boolean;
  readonly principal?: string;
}

/** `trunkline login`, `logout`, `connections` and `key`. */
export function addCredentialCommands({ command, input, done }: CommandParts): void {
  command('login', 'sign in to a server in a browser')
    .addOption(new Option('--no-browser', 'print the address and open no browser'))
    .addOption(new Option('--device', 'sign in with a code, on any machine with a browser'))
    .addOption(
      new Option('--callback-port <number>', 'port that the browser returns to (default: a free one)').argParser(port),
    )
    .addOption(new Option('--via-gateway', 'have the browser return to the gateway (listen.publicUrl)'))
    .addOption(new Option('--no-wait', 'print the address and exit; --finish ends the login'))
    .addOption(new Option('--finish <address>', 'end a login with the address that the browser was sent back to'))
    .addOption(principalOption())
    .argument('[server]', 'name of the server')
    .action(async (server: string | undefined, flags: LoginFlags) => {
      const { login } = await import('./login.ts');
      const { device = false, viaGateway = false, browser, callbackPort = 0, finish, wait, principal = null } = flags;
      done(
        await login({ ...input(flags), server, device, viaGateway, browser, callbackPort, finish, wait, principal }),
      );
    });
  command('logout', 'revoke and forget the credential for a server')
    .addOption(principalOption())
    .argument('<server>', 'name of the server')
    .action(async (server: string, flags: GatewayFlags & { readonly principal?: string }) => {
      const { logout } = await import('./connections.ts');
      done(await logout({ ...input(flags), server, principal: flags.principal ?? null }));
    });
  command('connections', 'list the credentials for servers, and what they need').action(async (flags: GatewayFlags) => {
    const { connections } = await import('./connections.ts');
    done(await connections(input(flags)));
  });
  command('key', 'print the key of an agent, as in: --key "$(trunkline key writer)"')
    .argument('<agent>', 'name of the agent')
    .action(async (agent: string, flags: GatewayFlags) => {
      const { agentKey } = await import('./agent-key.ts');
      done(await agentKey({ ...input(flags), agent }));
    });
}

function principalOption(): Option {
  const words = 'whose credential, where each caller has its own: agent:<name>, anonymous or operator (default)';
  return new Option('--principal <id>', words);
}
