import { Option } from 'commander';
import type { CommandParts } from '../command-input.ts';
import type { GatewayFlags } from '../flags.ts';

/** `trunkline secret set|list|rm|rotate-key`. */
export function addSecretCommands({ command, input, done }: CommandParts): void {
  const secret = command('secret', 'keep secrets for ${secret:NAME} in definitions')
    .enablePositionalOptions()
    .helpCommand(false);
  command('set', 'set or change a secret: asks for it, or reads standard input', secret)
    .addOption(new Option('--value-from-stdin', 'read standard input, also from a terminal'))
    .argument('<name>', 'name of the secret')
    .action(async (name: string, flags: GatewayFlags & { readonly valueFromStdin?: boolean }) => {
      const { setSecret } = await import('./secrets.ts');
      done(await setSecret({ ...input(flags), name, fromStdin: flags.valueFromStdin === true }));
    });
  command('list', 'list the names of the secrets, and when they were changed', secret).action(
    async (flags: GatewayFlags) => {
      const { listSecrets } = await import('./secrets.ts');
      done(await listSecrets(input(flags)));
    },
  );
  command('rm', 'remove a secret; servers that refer to it stop using it', secret)
    .argument('<name>', 'name of the secret')
    .action(async (name: string, flags: GatewayFlags) => {
      const { removeSecret } = await import('./secrets.ts');
      done(await removeSecret({ ...input(flags), name }));
    });
  command('rotate-key', 'seal all credentials and secrets with a new key, and drop the one before', secret).action(
    async (flags: GatewayFlags) => {
      const { rotateKey } = await import('./secrets.ts');
      done(await rotateKey(input(flags)));
    },
  );
}
