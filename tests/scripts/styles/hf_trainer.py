"""The Trainer of transformers on a GPT-2 with random weights, so nothing is downloaded."""

import pydoc_data.topics

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Blocks(torch.utils.data.Dataset):
    """Bytes of Python's documentation, cut into blocks."""

    def __init__(self, length=64):
        raw = pydoc_data.topics.topics["typesmapping"].encode()[:16384]
        count = len(raw) // length
        self.blocks = torch.tensor(list(raw[: count * length])).view(count, length)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        return {"input_ids": self.blocks[index], "labels": self.blocks[index]}


def main():
    set_seed(13)
    config = GPT2Config(vocab_size=256, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=24,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        logging_steps=8,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Blocks()).train()


if __name__ == "__main__":
    main()
